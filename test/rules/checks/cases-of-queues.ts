import type { RunsFacts } from '../../../src/collectors/index.ts';
import { type CalmAccount, NOON } from '../../support/calm-account.ts';
import {
  ago,
  type Case,
  failing,
  judged,
  key,
  listed,
  MINUTE,
  missedStarts,
  queueOf,
  rounds,
  schedule,
  waitlist,
} from './check-scene.ts';

const stuckRuns = (count: number, hasMore: boolean, url?: string): RunsFacts => {
  const oldest = { runId: 'wfr_123', url, state: 'started', createdAt: ago(168), labels: [] } as const;
  return { olderThan: 60 * MINUTE, count, hasMore, oldest };
};

/** Cases about dead letters, waitlists, schedules and auto-cancel. */
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
      'warning filter_failing (payments) 15 min: The filter payments fails: GET /v2/dlq: status 500; its size is from before 11:45:00 UTC.',
      'warning filter_failing (jobs) 7 min: The filter jobs fails: the service ignores the parameter label: 27 of 30 rows do not match; its data is not shown.',
      'warning filter_failing (errors) 7 min: The filter errors fails: GET /v2/dlq: status 400: invalid responseStatus; its size is unknown.',
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
    'a queue that grows over an hour',
    {
      change: account => Object.assign(queueOf(account), { messages: 100, entered: 600 }),
      courses: { delivery_dlq_messages: minutes => 100 - minutes },
    },
    [
      'warning dlq_growing 0 min: 100 dead letters entered in the last hour; the queue grew by 60 to 100 in the last hour; largest kind in the queue: status 503 from api.example.com/orders (71 of 100).',
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
      'warning dlq_old 10080 min: The longest-queued of 100 dead letters has been in the queue for 8 d (objective: 1 d); largest kind in the queue: status 503 from api.example.com/orders (71 of 100).',
      'warning retention_too_short 432 min: The longest-queued dead letter has been in the queue for 7 d 23 h, longer than its retention of 7 d: correct `retention.dlq`, or the expiry of dead letters cannot be predicted.',
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
    ['warning dlq_nearly_full 0 min: The dead-letter queue holds 100 of the 120 messages that the plan allows (83 %).'],
  ],
  [
    'stuck and failed callbacks',
    {
      change(account) {
        account.dlq.suspected = 8;
        Object.assign(account.dlq, { oldestInProgress: ago(552), callbacks: { success: 10, fail: 5 } });
      },
    },
    [
      'warning callbacks_stuck 552 min: 8 failure callbacks seem stuck, the oldest for 9 h 12 min.',
      'info callbacks_failing 0 min: 5 of the 15 failure callbacks that ended failed: their workflows were not notified.',
    ],
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
      'warning waitlist_stalled (tenant-7) 30 min: Key tenant-7: 10 messages waiting, unchanged for 30 min or more; parallelism 3 of 10 in use, the account’s parallelism 100 of 100 in use.',
      'warning account_full 0 min: The account’s parallelism is used up: 100 of 100 deliveries at once; 10 messages waiting on key tenant-7.',
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
  [
    'a daily quota that ends before midnight',
    { change: ({ plan }) => Object.assign(plan.usage, { requestsToday: 351_000 }) },
    [
      'warning quota_ending 0 min: At today’s average rate, the daily quota of 500,000 requests ends at about 16:50 UTC.',
    ],
  ],
  [
    'no end of a daily quota of which less than half is used, or that lasts until midnight',
    { change: ({ plan }) => Object.assign(plan.usage, { requestsToday: 246_000 }) },
    [],
  ],
  [
    'a daily quota that is used up',
    { change: ({ plan }) => Object.assign(plan.usage, { requestsToday: 512_000 }) },
    ['warning quota_ending 0 min: The daily quota of 500,000 requests is used up: 512,000 requests today.'],
  ],
  [
    'a daily quota whose hard limit is reached',
    {
      change({ plan }) {
        Object.assign(plan.limits, { requests_per_day_hard: 510_000 });
        Object.assign(plan.usage, { requestsToday: 512_000 });
      },
    },
    ['critical quota_ending 0 min: The daily quota of 500,000 requests is used up: 512,000 requests today.'],
  ],
  [
    'no end of a daily quota from yesterday’s number',
    {
      change({ plan }) {
        Object.assign(plan.usage, { requestsToday: 512_000, at: ago(721) });
      },
    },
    [],
  ],
  [
    'no quota of an unlimited plan',
    {
      change({ plan }) {
        Object.assign(plan, { limits: { dlq_size: 10_000 } });
        Object.assign(plan.usage, { requestsToday: 9_000_000 });
      },
    },
    [],
  ],
  [
    'an account that was suspended',
    {
      change: ({ plan }) =>
        Object.assign(plan.read, {
          state: 'passive',
          change: { at: ago(90), text: 'plan from paid to free, state from active to passive' },
        }),
    },
    [
      'warning account_suspended 0 min: The state of the account is passive: the service may not deliver its messages.',
      'info plan_changed 90 min: The account changed: plan from paid to free, state from active to passive, seen at 10:30:00 UTC.',
    ],
  ],
  [
    'no change of the plan after a day',
    { change: ({ plan }) => Object.assign(plan.read, { change: { at: ago(1441), text: 'plan from paid to free' } }) },
    [],
  ],
  [
    'a queue of another size than the management API reports',
    { change: ({ plan }) => Object.assign(plan.usage, { dlqMessages: 130 }) },
    ['info dlq_size_differs 0 min: The management API counts 130 dead letters, the agent 100.'],
  ],
  [
    'no difference between the sizes of a queue that changes',
    {
      change: ({ plan }) => Object.assign(plan.usage, { dlqMessages: 130 }),
      courses: { delivery_dlq_messages: minutes => (minutes > 15 ? 140 : 100) },
    },
    [],
  ],
  [
    'a schedule that does not start',
    { change: account => Object.assign(schedule(account), { ...judged('missed'), missed: 5, lastStarted: ago(120) }) },
    [
      'warning schedule_missed (reports) 120 min: Schedule reports: no message since 10:00:00 UTC; 5 starts missed in the last hour.',
    ],
  ],
  [
    'no problem for a schedule that started again after it had missed several starts in a row',
    {
      change: account => Object.assign(schedule(account), { missed: 5, lastStarted: ago(1), next: ago(-9) }),
      courses: { [missedStarts]: minutes => [51, 41, 31, 21, 11].filter(each => each >= minutes).length },
    },
    [],
  ],
  [
    'a schedule that misses every second start',
    {
      change: account => Object.assign(schedule(account), { missed: 2, lastStarted: ago(1), next: ago(-9) }),
      courses: { [missedStarts]: minutes => (minutes > 31 ? 0 : minutes > 11 ? 1 : 2) },
    },
    [
      'warning schedule_missed (reports) 0 min: Schedule reports: 2 starts missed in the last hour; it started again, last at 11:59:00 UTC.',
    ],
  ],
  [
    'no problem for a recovered schedule with one missed and one late start',
    { change: account => Object.assign(schedule(account), { missed: 1, late: 1 }) },
    [],
  ],
  [
    'a schedule with late messages',
    { change: account => Object.assign(schedule(account), { ...judged('late'), late: 2, lastDelivered: ago(120) }) },
    [
      'warning schedule_late (reports) 0 min: Schedule reports: not delivered in time, last delivery at 10:00:00 UTC; 2 starts not delivered in time in the last hour.',
    ],
  ],
  [
    'a schedule that runs every minute, with more than 10 % late starts',
    { change: account => Object.assign(schedule(account), { late: 7, lastDelivered: ago(39) }) },
    [
      'warning schedule_late (reports) 0 min: Schedule reports: delivered again, last delivery at 11:21:00 UTC; 7 starts not delivered in time in the last hour.',
    ],
  ],
  [
    'no problem for a schedule that runs every minute, with 10 % late starts, because some retries are normal',
    { change: account => Object.assign(schedule(account), { late: 6 }) },
    [],
  ],
  [
    'a schedule that runs every ten minutes, with two late starts',
    { change: account => Object.assign(schedule(account), { late: 2, next: ago(-9) }) },
    [
      'warning schedule_late (reports) 0 min: Schedule reports: delivered again, last delivery at 11:59:21 UTC; 2 starts not delivered in time in the last hour.',
    ],
  ],
  [
    'a daily schedule with failed messages',
    {
      change: account =>
        Object.assign(schedule(account), { lastFailed: NOON, lastDelivered: ago(1500), next: ago(-1380) }),
    },
    [
      'warning schedule_late (reports) 0 min: Schedule reports: its last messages failed, last delivery at 2026-03-13 11:00:00 UTC.',
    ],
  ],
  [
    'no problem for a schedule that runs every minute, with a failed message',
    { change: account => Object.assign(schedule(account), { lastFailed: NOON }) },
    [],
  ],
  [
    'limits that were changed',
    {
      change({ limits, keys }) {
        keys.push({ ...(keys[0] as CalmAccount['keys'][number]), key: 'fal', pinned: ['parallelism'] });
        const read = { from: 40, to: 200, at: ago(57), after: ago(58) };
        limits.set('fal', {
          parallelism: { value: 200, changes: 3, last: read },
          rate: { value: 5, changes: 1, last: { from: 5000, to: 5, at: ago(3000), after: ago(3001) } },
          period: { value: 60, changes: 1, last: { from: 1, to: 60, at: ago(59), after: ago(90) } },
        });
        limits.set('gone', { rate: { value: 5, changes: 1, last: { from: 10, to: 5, at: ago(1439) } } });
        limits.set('unchanged', { rate: { value: 5, changes: 0 } });
        limits.set('long ago', { rate: { value: 5, changes: 1, last: { ...read, at: ago(1440) } } });
      },
    },
    [
      'info limit_changed (gone) 1439 min: The rate of gone was changed from 10 to 5 by 2026-03-13 12:01 UTC.',
      'info limit_changed (fal) 57 min: The parallelism of fal was changed from 40 to 200 at 11:03 UTC (pinned). The rate period of fal was changed from 1 s to 1 min by 11:01 UTC.',
    ],
  ],
  [
    'a listed schedule that does not start',
    {
      change: account =>
        listed(account, { lastRunAt: ago(120) }, { missed: 2, missedAt: ago(60), lastRunAt: ago(120) }),
    },
    [
      'warning schedule_missed (scd_1) 120 min: Schedule scd_1: no message since 10:00:00 UTC; 2 starts missed in the last hour.',
    ],
  ],
  [
    'a paused schedule that is configured and listed, which misses no start',
    {
      change(account) {
        Object.assign(schedule(account), { ...judged('missed'), missed: 5, lastStarted: ago(120) });
        const [row] = account.scheduleList.listed;
        Object.assign(row ?? {}, { name: 'reports', isConfigured: true });
        listed(account, { paused: true }, { pausedSince: ago(60), sawPause: true, missed: 5, missedAt: ago(60) });
      },
    },
    [],
  ],
  [
    'a schedule that is configured and listed, whose missed start is reported once',
    {
      change(account) {
        Object.assign(schedule(account), { ...judged('missed'), missed: 5, lastStarted: ago(120) });
        const [row] = account.scheduleList.listed;
        Object.assign(row ?? {}, { name: 'reports', isConfigured: true });
        listed(account, { lastRunAt: ago(120) }, { missed: 5, missedAt: ago(60), lastRunAt: ago(120) });
      },
    },
    [
      'warning schedule_missed (reports) 120 min: Schedule reports: no message since 10:00:00 UTC; 5 starts missed in the last hour.',
    ],
  ],
  [
    'a listed schedule with an error',
    { change: account => listed(account, { error: 'url group not found' }) },
    [
      'warning schedule_failing (scd_1) 30 min: Schedule scd_1: the last run at 11:30:00 UTC failed: url group not found.',
    ],
  ],
  [
    'a listed schedule of which all messages failed',
    { change: account => listed(account, { lastRunStates: { in_progress: 0, success: 0, fail: 2, unknown: 0 } }) },
    [
      'warning schedule_failing (scd_1) 30 min: Schedule scd_1: the last run at 11:30:00 UTC failed: all its messages failed.',
    ],
  ],
  [
    'no problem for a listed schedule of which some messages failed, or are still in progress',
    { change: account => listed(account, { lastRunStates: { in_progress: 1, success: 0, fail: 2, unknown: 0 } }) },
    [],
  ],
  [
    'a schedule that was paused more than a day ago, while the agent watched',
    { change: account => listed(account, { paused: true }, { pausedSince: ago(1500), sawPause: true }) },
    [
      'warning schedule_paused (scd_1) 1500 min: Schedule scd_1 is paused: the agent first read that at 2026-03-13 11:00:00 UTC.',
    ],
  ],
  [
    'a schedule that has always been paused',
    { change: account => listed(account, { paused: true }, { pausedSince: ago(1500), sawPause: false }) },
    [
      'info schedule_paused (scd_1) 1500 min: Schedule scd_1 is paused, at least since the agent first read it at 2026-03-13 11:00:00 UTC.',
    ],
  ],
  [
    'no problem for a schedule that was paused less than a day ago',
    { change: account => listed(account, { paused: true }, { pausedSince: ago(1439), sawPause: true }) },
    [],
  ],
  [
    'a schedule that started unexpectedly',
    { change: account => listed(account, {}, { unexpected: 1, unexpectedAt: ago(20) }) },
    ['warning schedule_unexpected (scd_1) 0 min: Schedule scd_1 started at 11:40:00 UTC, although no start was due.'],
  ],
  [
    'no problem for a schedule that started unexpectedly more than an hour ago',
    { change: account => listed(account, {}, { unexpected: 1, unexpectedAt: ago(61) }) },
    [],
  ],
  [
    'a schedule that the service no longer lists',
    {
      change({ scheduleList }) {
        const gone = { ...scheduleList.listed[0]?.history, id: 'old', paused: false, goneSince: ago(60) };
        const [history, young] = [
          gone,
          { ...gone, seenAt: ago(100) },
        ] as (typeof scheduleList.gone)[number]['history'][];
        scheduleList.gone = [
          { name: 'old', history },
          { name: 'young', history: young },
        ] as typeof scheduleList.gone;
      },
    },
    [
      'warning schedule_gone (old) 60 min: Schedule old: the service no longer lists it since 11:00:00 UTC.',
      'info schedule_gone (young) 60 min: Schedule young: the service no longer lists it since 11:00:00 UTC.',
    ],
  ],
  [
    'workflow runs that do not end',
    {
      change: account =>
        Object.assign(account, { runs: stuckRuns(3, true, 'https://app.example.com/api/onboard?token=secret') }),
    },
    [
      'warning run_stuck 108 min: At least 3 workflow runs have been in progress for more than 1 h, one of them since 09:12:00 UTC: https://app.example.com/api/onboard?…, run wfr_123.',
    ],
  ],
  [
    'a single workflow run without a URL that does not end',
    { change: account => Object.assign(account, { runs: stuckRuns(1, false) }) },
    [
      'warning run_stuck 108 min: 1 workflow run has been in progress for more than 1 h, since 09:12:00 UTC: run wfr_123.',
    ],
  ],
  [
    'no problem if the number of workflow runs is unknown',
    { change: account => Object.assign(account, { runs: { ...account.runs, count: undefined, hasMore: true } }) },
    [],
  ],
  [
    'suspended auto-cancel',
    {
      autoCancel: {
        breakers: new Map(Object.entries({ errors: true, candidates: false })),
        isPaused: true,
        unresolved: new Map([['hung', NOON - 40 * MINUTE]]),
      },
    },
    [
      'critical cancel_unresolved (hung) 40 min: A cancel by the rule hung has had no known outcome for 40 min.',
      'warning breaker_open (errors) 0 min: The breaker errors is open: nothing is cancelled until an operator resets it.',
      'info auto_cancel_paused 0 min: Auto-cancel is paused: nothing is cancelled until an operator resumes it.',
    ],
  ],
  [
    'auto-cancel that could not be opened',
    { change: account => Object.assign(account, { autoCancelFailure: new Error('the row 1 is damaged') }) },
    ['warning auto_cancel_failed 0 min: Auto-cancel is off: the row 1 is damaged'],
  ],
];
