import { ago, type Case, failing, outcomes, partial, queueOf, rounds, withdraw } from './check-scene.ts';

/** Cases about polling an account. */
export const READING: readonly Case[] = [
  [
    'a rejected token, without the problems that it causes',
    {
      change(account) {
        account.isTokenRejected = true;
        rounds(account, failing(true, 'unauthorized', 'GET /v2/dlq: status 401'));
      },
    },
    ['critical token_rejected 4 min: The service rejects the token (401): nothing has been read for 4 min.'],
  ],
  [
    'a rejected token with an explanation',
    {
      change(account) {
        account.isTokenRejected = true;
        const retried = 'the service rejects the token; it is retried every 5 minutes: status 401: token expired';
        rounds(account, failing(true, 'unauthorized', retried));
      },
    },
    [
      'critical token_rejected 4 min: The service rejects the token (401: token expired): nothing has been read for 4 min.',
    ],
  ],
  [
    'a service that responds with 503 and an explanation',
    {
      change: account => rounds(account, failing(true, 'server', 'GET /v2/dlq: status 503: maintenance: until 12:30')),
    },
    [
      'critical service_unavailable 4 min: The service returns 503 (maintenance: until 12:30): nothing has been read for 4 min.',
    ],
  ],
  [
    'a service that responds with 503',
    { change: account => rounds(account, failing(true, 'server', 'GET /v2/dlq: status 503')) },
    ['critical service_unavailable 4 min: The service returns 503: nothing has been read for 4 min.'],
  ],
  [
    'a service whose clock is ahead',
    { change: account => Object.assign(account, { clockSkew: 90_400, serviceNow: ago(-1.5) }) },
    [
      'warning clock_skew 0 min: The service’s clock is 1 min 30 s ahead of the agent’s: the service’s data is evaluated by the service’s clock.',
    ],
  ],
  [
    'a service whose clock is behind by more than a day',
    { change: account => Object.assign(account, { clockSkew: -172_800_000 }) },
    [
      'warning clock_skew 0 min: The service’s clock is 2 d behind the agent’s: the service’s data is evaluated by the agent’s clock, because the difference exceeds a day.',
    ],
  ],
  ['clocks that differ by ten seconds', { change: account => Object.assign(account, { clockSkew: -10_000 }) }, []],
  [
    'an unreachable service with withdrawn data',
    {
      change(account) {
        rounds(account, failing(true, 'network', 'GET /v2/dlq: ECONNREFUSED'));
        withdraw(account);
      },
    },
    ['critical service_unavailable 4 min: The service is unreachable (ECONNREFUSED): nothing has been read for 4 min.'],
  ],
  [
    'a service that was down when the agent started',
    {
      change: account =>
        rounds(account, round => {
          failing(false, 'timeout', 'GET /v2/dlq: no response in time')(round);
          round.dataAt = undefined;
        }),
      states: [{ kind: 'service_unavailable', startsAt: ago(3) }],
    },
    [
      'critical service_unavailable 3 min: The service does not respond in time: nothing has been read since the agent started.',
    ],
  ],
  [
    'an outage after a restart, before the first walk, for which the reads for new entries wait',
    {
      change: account =>
        rounds(account, round => {
          failing(true, 'server', 'GET /v2/dlq: status 503')(round);
          round.dataAt = undefined;
          if (round.round === 'new')
            Object.assign(round, { success: undefined, consecutiveFailures: 0, failure: undefined, stale: false });
        }),
    },
    ['critical service_unavailable 0 min: The service returns 503: nothing has been read since the agent started.'],
  ],
  [
    'a collector that has failed since the agent started a minute ago',
    {
      change: account =>
        rounds(
          account,
          round => {
            failing(true, 'server', 'GET /v2/dlq: status 503')(round);
            round.dataAt = undefined;
          },
          'dlq',
        ),
      states: [{ kind: 'data_stale', subject: 'dlq', startsAt: ago(1) }],
    },
    [
      'critical data_stale (dlq) 1 min: Dead letters have not been read since the agent started: GET /v2/dlq: status 503.',
    ],
  ],
  [
    'one failed attempt',
    { change: account => rounds(account, failing(false, 'server', 'GET /v2/dlq: status 503')) },
    [],
  ],
  [
    'a failing collector, without problems in its stale data',
    {
      change(account) {
        rounds(account, failing(true, 'server', 'GET /v2/dlq: status 500'), 'dlq');
        queueOf(account).messages = 9000;
        account.dlq.suspected = 8;
      },
    },
    ['critical data_stale (dlq) 4 min: Dead letters were last read at 11:56:00 UTC: GET /v2/dlq: status 500.'],
  ],
  [
    'a round that hangs before its first success, if another round has read data',
    {
      change: account =>
        rounds(
          account,
          round => {
            if (round.round === 'new') Object.assign(round, { stale: true, dataAt: undefined, consecutiveFailures: 1 });
            else round.dataAt = ago(3);
          },
          'dlq',
        ),
    },
    ['critical data_stale (dlq) 3 min: Dead letters were last read at 11:57:00 UTC.'],
  ],
  [
    'an outage before the first success of the most frequent rounds',
    {
      change: account =>
        rounds(account, round => {
          failing(true, 'timeout', 'GET /v2/dlq: no response in time')(round);
          if (round.round === 'new') round.dataAt = undefined;
        }),
    },
    ['critical service_unavailable 4 min: The service does not respond in time: nothing has been read for 4 min.'],
  ],
  [
    'several stale rounds of a collector, dated from the latest success of any of them',
    {
      change: account =>
        rounds(
          account,
          round => {
            failing(true, 'timeout', 'GET /v2/dlq: no response in time')(round);
            if (round.round === 'full') round.dataAt = ago(13);
          },
          'dlq',
        ),
    },
    ['critical data_stale (dlq) 4 min: Dead letters were last read at 11:56:00 UTC: GET /v2/dlq: no response in time.'],
  ],
  [
    'data that has just become stale',
    {
      change: account =>
        rounds(
          account,
          round => {
            failing(true, 'timeout', 'GET /v2/flowControl: no response in time')(round);
            round.dataAt = ago(0.5);
          },
          'flow_control',
        ),
    },
    [
      'critical data_stale (flow_control) 0.5 min: Flow-control keys were last read at 11:59:30 UTC: GET /v2/flowControl: no response in time.',
    ],
  ],
  [
    'withdrawn data of a collector',
    {
      change(account) {
        rounds(account, failing(true, 'invalid_response', 'GET /v2/dlq: not JSON'), 'dlq');
        withdraw(account, 'dlq');
      },
    },
    [
      'critical data_stale (dlq) 4 min: Dead letters were last read at 11:56:00 UTC and are no longer shown: GET /v2/dlq: not JSON.',
    ],
  ],
  [
    'a stale round that no gauge depends on',
    {
      change: account =>
        rounds(account, round => {
          if (round.round === 'sweep') failing(true, 'server', 'GET /v2/events: status 500')(round);
        }),
    },
    [
      'warning round_stale (events sweep) 4 min: The round sweep of events has not completed since 11:56:00 UTC; all gauges are current: GET /v2/events: status 500.',
    ],
  ],
  [
    'no problem for an optional list that is stale or withdrawn',
    {
      change(account) {
        rounds(account, failing(true, 'server', 'GET /v2/schedules: status 500'), 'schedules');
        withdraw(account, 'schedules');
      },
    },
    [],
  ],
  [
    'an outage, although an optional list is still readable',
    {
      change(account) {
        rounds(account, failing(true, 'server', 'GET /v2/dlq: status 503'));
        rounds(
          account,
          round => Object.assign(round, { stale: false, consecutiveFailures: 0, dataAt: ago(1) }),
          'schedules',
        );
      },
    },
    ['critical service_unavailable 4 min: The service returns 503: nothing has been read for 4 min.'],
  ],
  [
    'no problem for unreadable rows of an optional list',
    { change: account => rounds(account, partial, 'schedules') },
    [],
  ],
  [
    'requests with status 429',
    {
      count({ requests }) {
        requests.inc({ endpoint: 'dlq', outcome: 'ok' }, 400);
        requests.inc({ endpoint: 'dlq', outcome: 'rate_limited' }, 400);
        requests.inc({ endpoint: 'events', outcome: 'rate_limited' }, 400);
      },
      courses: {
        [outcomes('ok')]: minutes => (minutes > 12 ? undefined : 300),
        [outcomes('rate_limited')]: minutes => (minutes > 12 ? undefined : 730),
      },
    },
    ['warning rate_limited 0 min: 70 of the 170 requests in 12 min got 429 (41.2 %).'],
  ],
  [
    'a nearly exhausted request budget',
    { change: account => Object.assign(account, { budgetRemaining: 40_000 }) },
    [
      'warning budget_low 0 min: Only 40,000 of today’s 200,000 requests are left until 00:00 UTC, so rounds are delayed.',
    ],
  ],
  [
    'unreadable rows at the last read',
    { change: account => rounds(account, partial, 'dlq') },
    [
      'warning rows_unreadable (dlq) 0 min: Some rows of dlq could not be read completely at 11:59:50 UTC: the shown data is incomplete.',
    ],
  ],
];
