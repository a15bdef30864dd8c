import { NOON } from '../../support/calm-account.ts';
import { ago, type Case, failing, key, MINUTE, ORDERS_503, queueOf, rounds, waitlist } from './check-scene.ts';

/** Cases about dead letters, waitlists and queues. */
export const QUEUES: readonly Case[] = [
  [
    'failing filters',
    {
      change: ({ collectors, dlq }) => {
        const fail = (name: string, reason: string, message: string, minutes = 7) =>
          collectors.dlq.failedFilters.push({
            name,
            reason,
            message,
            since: ago(minutes),
            isContradicted: name === 'jobs',
          });
        fail('jobs', 'invalid_response', 'the service ignores the parameter label: 27 of 30 rows do not match');
        fail('errors', 'refused', 'GET /v2/dlq: status 400: invalid responseStatus');
        fail('payments', 'server', 'GET /v2/dlq: status 500', 15);
        fail('limited', 'rate_limited', 'GET /v2/dlq: status 429', 14);
        const queue = queueOf({ dlq });
        for (const name of ['payments', 'limited']) dlq.selections.set(name, { ...queue, messages: 12 });
      },
    },
    [
      'warning filter_failing (jobs) 7 min: The filter jobs fails: the service ignores the parameter label: 27 of 30 rows do not match; its data is not shown.',
      'warning filter_failing (errors) 7 min: The filter errors fails: GET /v2/dlq: status 400: invalid responseStatus; its size is unknown.',
      'warning filter_failing (payments) 15 min: The filter payments fails: GET /v2/dlq: status 500; its size is from before 11:45:00 UTC.',
    ],
  ],
  [
    'a failing filter in stale data',
    {
      change: account => {
        const failure = { reason: 'refused', message: 'status 400', since: ago(7), isContradicted: false };
        account.collectors.dlq.failedFilters.push({ name: 'errors', ...failure });
        rounds(account, failing(true, 'server', 'GET /v2/dlq: status 500'), 'dlq');
      },
    },
    ['critical data_stale (dlq) 4 min: Dead letters were last read at 11:56:00 UTC: GET /v2/dlq: status 500.'],
  ],
  [
    'a queue that grows within minutes',
    {
      change: account => Object.assign(queueOf(account), { messages: 160, entered: 570 }),
    },
    [
      'warning dlq_growing 0 min: 70 dead letters entered in the last hour; the queue grew by 60 to 160 in 10 min; largest kind in the queue: status 503 from api.example.com/orders (71 of 160).',
    ],
  ],
  [
    'a queue that grows by one kind within minutes',
    {
      change: account => Object.assign(queueOf(account), { messages: 160, entered: 570 }),
      courses: { delivery_dlq_groups: () => 20, [ORDERS_503]: minutes => (minutes >= 10 ? 30 : 71) },
    },
    [
      'warning dlq_growing 0 min: 70 dead letters entered in the last hour; the queue grew by 60 to 160 in 10 min; fastest growing kind of dead letters in the last hour: status 503 from api.example.com/orders (+41 of +60).',
    ],
  ],
  [
    'a queue that grows by a kind that is new, because fewer kinds existed than are recorded',
    {
      change: account => Object.assign(queueOf(account), { messages: 160, entered: 570 }),
      courses: { delivery_dlq_groups: () => 50, [ORDERS_503]: minutes => (minutes >= 10 ? undefined : 71) },
    },
    [
      'warning dlq_growing 0 min: 70 dead letters entered in the last hour; the queue grew by 60 to 160 in 10 min; fastest growing kind of dead letters in the last hour: status 503 from api.example.com/orders (+71).',
    ],
  ],
  ...[1, 2].map(
    (kinds): Case => [
      `a queue that grows by several kinds, ${kinds} of which exist`,
      {
        change(account) {
          Object.assign(queueOf(account), { messages: 160, entered: 570 });
          Object.assign(account.dlq.kinds, { count: kinds });
        },
        courses: { delivery_dlq_groups: () => 20, [ORDERS_503]: () => 41 },
      },
      [
        `warning dlq_growing 0 min: 70 dead letters entered in the last hour; the queue grew by 60 to 160 in 10 min; ${kinds === 1 ? 'fastest growing kind of dead letters in the last hour: status 503 from api.example.com/orders (+30 of +60)' : 'largest kind in the queue: status 503 from api.example.com/orders (71 of 160)'}.`,
      ],
    ],
  ),
  ...Object.entries<[Case[1]['courses'], string]>({
    'may have been too small to be recorded': [
      { delivery_dlq_groups: () => 51 },
      'largest kind in the queue: status 503 from api.example.com/orders (71 of 160)',
    ],
    'has a shorter history than the growth': [
      {
        delivery_dlq_groups: minutes => (minutes >= 7 ? undefined : 20),
        [ORDERS_503]: minutes => (minutes >= 7 ? undefined : 1),
      },
      'fastest growing kind of dead letters in 6 min: status 503 from api.example.com/orders (+70)',
    ],
  }).map(
    ([what, [courses = {}, text]]): Case => [
      `a queue that grows, with a kind that ${what}`,
      { change: account => Object.assign(queueOf(account), { messages: 160, entered: 570 }), courses },
      [
        `warning dlq_growing 0 min: 70 dead letters entered in the last hour; the queue grew by 60 to 160 in 10 min; ${text}.`,
      ],
    ],
  ),
  [
    'a queue that grows over an hour',
    {
      change: account => Object.assign(queueOf(account), { messages: 105, entered: 600 }),
      courses: { delivery_dlq_messages: minutes => 100 - minutes },
    },
    [
      'warning dlq_growing 0 min: 100 dead letters entered in the last hour; the queue grew by 65 to 105 in the last hour; largest kind in the queue: status 503 from api.example.com/orders (71 of 105).',
    ],
  ],
  [
    'no growth of a queue whose size oscillates because removals appear only with the next walk',
    { courses: { delivery_dlq_messages: minutes => 100 + (minutes % 10) } },
    [],
  ],
  [
    'a dead letter that is too old and about to expire',
    {
      change: account => Object.assign(queueOf(account), { oldestEntered: ago(6 * 1440) }),
    },
    [
      'critical dlq_expiring 576 min: The longest-queued dead letter expires in 1 d, at 2026-03-15 12:00:00 UTC.',
      'warning dlq_old 7200 min: The longest-queued of 100 dead letters has been in the queue for 6 d (objective: 1 d); largest kind in the queue: status 503 from api.example.com/orders (71 of 100).',
    ],
  ],
  [
    'a dead letter that is too old by the clock of the service',
    {
      change(account) {
        Object.assign(account, { clockSkew: 5000, serviceNow: ago(-60) });
        account.queue.lag = 0;
        queueOf(account).oldestEntered = ago(1410);
      },
    },
    [
      'warning dlq_old 30 min: The longest-queued of 100 dead letters has been in the queue for 1 d 30 min (objective: 1 d); largest kind in the queue: status 503 from api.example.com/orders (71 of 100).',
    ],
  ],
  [
    'a dead letter that has been queued for much longer than the retention, which must be wrong',
    { change: account => Object.assign(queueOf(account), { oldestEntered: ago(8 * 1440) }) },
    [
      'warning retention_too_short 432 min: The longest-queued dead letter has been in the queue for 7 d 23 h, longer than its retention of 7 d: correct `retention.dlq`, or the expiry of dead letters cannot be predicted.',
      'warning dlq_old 10080 min: The longest-queued of 100 dead letters has been in the queue for 8 d (objective: 1 d); largest kind in the queue: status 503 from api.example.com/orders (71 of 100).',
    ],
  ],
  [
    'a dead letter that the next complete walk may not find',
    {
      change(account) {
        Object.assign(queueOf(account), { oldestEntered: ago(7.75 * 1440) });
        rounds(account, round => Object.assign(round, { dataAt: ago(180) }), 'dlq');
      },
    },
    [
      'critical dlq_expiring 3096 min: The longest-queued dead letter was due to expire at 2026-03-13 18:00:00 UTC.',
      'warning dlq_old 9720 min: The longest-queued of 100 dead letters has been in the queue for 7 d 18 h (objective: 1 d); largest kind in the queue: status 503 from api.example.com/orders (71 of 100).',
    ],
  ],
  [
    'a first dead letter',
    {
      change(account) {
        Object.assign(queueOf(account), { messages: 1 });
        account.plan.usage.dlqMessages = 1;
      },
      courses: { delivery_dlq_messages: minutes => (minutes > 20 ? 0 : 1) },
    },
    [
      'warning dlq_first_entry 0 min: 1 dead letter in a queue that was empty 21 min ago; largest kind in the queue: status 503 from api.example.com/orders (71 of 1).',
    ],
  ],
  [
    'an expiring dead letter if none was removed before',
    {
      change: account =>
        Object.assign(queueOf(account), {
          oldestEntered: ago(6 * 1440),
          left: { expired: 0, removed: 0, unknown: 0 },
        }),
    },
    [
      'critical dlq_expiring 576 min: The longest-queued dead letter expires in 1 d, at 2026-03-15 12:00:00 UTC.',
      'warning dlq_old 7200 min: The longest-queued of 100 dead letters has been in the queue for 6 d (objective: 1 d); largest kind in the queue: status 503 from api.example.com/orders (71 of 100).',
    ],
  ],
  [
    'an old dead letter if most expire anyway',
    {
      change: account =>
        Object.assign(queueOf(account), {
          oldestEntered: ago(6 * 1440),
          left: { expired: 900, removed: 400, unknown: 0 },
        }),
    },
    [
      'warning dlq_old 7200 min: The longest-queued of 100 dead letters has been in the queue for 6 d (objective: 1 d); largest kind in the queue: status 503 from api.example.com/orders (71 of 100).',
    ],
  ],
  [
    'a queue that is nearly full',
    { change: ({ plan }) => Object.assign(plan.limits, { dlq_size: 120 }) },
    [
      'warning dlq_nearly_full 0 min: The dead-letter queue holds 100 of the 120 messages that the plan allows (83.3 %).',
    ],
  ],
  [
    'a queue that is larger than its limit',
    { change: ({ plan }) => Object.assign(plan.limits, { dlq_size: 20 }) },
    [
      'warning dlq_nearly_full 0 min: The dead-letter queue holds 100 messages, more than its limit of 20: it is full, or the limit is wrong.',
    ],
  ],
  [
    'stuck callbacks',
    {
      change(account) {
        account.dlq.suspected = 8;
        Object.assign(account.dlq, { oldestInProgress: ago(552) });
      },
    },
    ['warning callbacks_stuck 552 min: 8 failure callbacks seem stuck, the oldest for 9 h 12 min.'],
  ],
  [
    'stuck callbacks that match an auto-cancel rule',
    { autoCancel: { candidates: new Map([['hung', 1]]) } },
    [
      'warning callbacks_stuck 10 min: 1 failure callback seems stuck according to the rule hung, the oldest for 10 min.',
    ],
  ],
  ...[10, 25, 35, 50, 59].map(
    (minutesAgo): Case => [
      `no growth of a waitlist that only shrinks, ${minutesAgo} minutes after a batch of messages`,
      {
        change: account => Object.assign(key(account), { waitlistSize: 9000 - 10 * minutesAgo }),
        courses: { [waitlist]: minutes => (minutes > minutesAgo ? 0 : 9000 - 10 * (minutesAgo - minutes)) },
      },
      [],
    ],
  ),
  [
    'a waitlist that grows steadily',
    {
      change: account => Object.assign(key(account), { waitlistSize: 2310, parallelismInUse: 10 }),
      courses: { [waitlist]: minutes => 2310 - 20 * minutes },
    },
    [
      'warning waitlist_growing (tenant-7) 0 min: Key tenant-7: 2,310 messages waiting, +1,200 in 1 h; parallelism 10 of 10 in use.',
    ],
  ],
  [
    'no growth of a waitlist that has been recorded for less than an hour',
    {
      change: account => Object.assign(key(account), { waitlistSize: 2310 }),
      courses: { [waitlist]: minutes => (minutes > 57 ? undefined : 2310 - 40 * minutes) },
    },
    [],
  ],
  [
    'no growth in bursts that are processed',
    {
      change: account => Object.assign(key(account), { waitlistSize: 400 }),
      courses: { [waitlist]: minutes => (minutes % 20 < 5 ? 400 : 0) },
    },
    [],
  ],
  [
    'no growth of a key with too few samples',
    {
      change: account => Object.assign(key(account), { waitlistSize: 400 }),
      courses: { [waitlist]: minutes => (minutes === 60 ? 0 : minutes < 20 ? 400 : undefined) },
    },
    [],
  ],
  [
    'a stalled waitlist',
    { courses: { [waitlist]: () => 10 } },
    [
      'warning waitlist_stalled (tenant-7) 30 min: Key tenant-7: 10 messages waiting, unchanged for 30 min or more; parallelism 3 of 10 in use.',
    ],
  ],
  [
    'no stall of a waitlist that was not recorded for a while',
    { courses: { [waitlist]: ago => (ago > 8 && ago < 20 ? undefined : 10) } },
    [],
  ],
  [
    'no stall of a key whose rate is used up',
    { change: account => Object.assign(key(account), { state: 'rate_limited' }), courses: { [waitlist]: () => 10 } },
    [],
  ],
  [
    'no stall if waitlists are read only every half hour',
    {
      change(account) {
        rounds(account, round => Object.assign(round, { every: 30 * MINUTE }), 'flow_control');
        key(account).waitlistSize = 400;
      },
      courses: { [waitlist]: minutes => (minutes < 31 ? 400 : 0) },
    },
    [],
  ],
  [
    'an account whose parallelism is used up',
    {
      change(account) {
        Object.assign(account, { parallelism: { limit: 100, inUse: 100 } });
        key(account).state = 'account_full';
      },
      courses: { [waitlist]: () => 10 },
    },
    [
      'warning account_full 0 min: The account’s parallelism is used up: 100 of 100 deliveries at once; 10 messages waiting on key tenant-7.',
      'warning waitlist_stalled (tenant-7) 30 min: Key tenant-7: 10 messages waiting, unchanged for 30 min or more; parallelism 3 of 10 in use, the account’s parallelism 100 of 100 in use.',
    ],
  ],
  [
    'no used-up parallelism of an account without a limit, or while nothing waits',
    { change: account => Object.assign(account, { parallelism: { inUse: 100 } }) },
    [],
  ],
  [
    'a key that has just been paused',
    {
      change: account => Object.assign(key(account), { paused: true, state: 'paused', since: NOON }),
      courses: { [waitlist]: () => 10 },
    },
    ['warning paused_with_backlog (tenant-7) 0 min: Key tenant-7 is paused: 10 messages waiting.'],
  ],
  [
    'a key that has been paused for a long time',
    {
      change: account => Object.assign(key(account), { paused: true, state: 'paused', since: NOON }),
      states: [{ kind: 'paused_with_backlog', subject: 'tenant-7', startsAt: ago(90) }],
    },
    ['warning paused_with_backlog (tenant-7) 90 min: Key tenant-7 is paused: 10 messages waiting.'],
  ],
  [
    'a paused queue with waiting messages',
    { change: ({ queue }) => Object.assign(queue, { paused: true }) },
    ['warning queue_paused (mail) 0 min: Queue mail is paused: 4 messages waiting according to the service.'],
  ],
  [
    'no problem of a paused queue without waiting messages',
    { change: ({ queue }) => Object.assign(queue, { paused: true, lag: 0 }) },
    [],
  ],
  [
    'a queue without deliveries',
    { change: ({ events }) => events.queues.deliveries.set('mail', ago(42)) },
    [
      'warning queue_blocked (mail) 42 min: Queue mail: no delivery since 11:18:00 UTC; 4 messages waiting according to the service.',
    ],
  ],
  [
    'a queue of which the log lists attempts alone',
    { change: ({ events }) => events.queues.deliveries.set('mail', 0) },
    ['warning queue_blocked (mail) 0 min: Queue mail: no delivery seen; 4 messages waiting according to the service.'],
  ],
  [
    'no block of a queue that is paused or empty according to the service',
    {
      change({ events, queue }) {
        events.queues.deliveries.set('mail', ago(42));
        queue.lag = 0;
      },
    },
    [],
  ],
  [
    'no block of a queue that the service reports as long, but that delivers',
    { change: ({ queue }) => Object.assign(queue, { lag: 9_000_000 }) },
    [],
  ],
  [
    'no block of a queue if the event log is not read',
    {
      change({ collectors, events }) {
        events.queues.deliveries.set('mail', ago(42));
        delete (collectors as Partial<typeof collectors>).events;
      },
    },
    [],
  ],
];
