import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  ACCOUNT_CHECKS,
  AGENT_CHECKS,
  agentProblemsOf,
  byWeight,
  problemsOf,
  type ShownAccount,
} from '../../../src/app/view/problems.ts';
import { seriesName } from '../../../src/app/view/recent.ts';
import { PROBLEM_KINDS, type Problem } from '../../../src/http/api/parts.ts';
import { autoCancelFamilies } from '../../../src/metrics/auto-cancel.ts';
import type { Family, Sample } from '../../../src/metrics/family.ts';
import { objectiveFamilies } from '../../../src/metrics/objectives.ts';
import { ownFamilies } from '../../../src/metrics/own.ts';
import { alertGroups } from '../../../src/mixin/rules.ts';
import type { Point } from '../../../src/model/history.ts';
import type { AccountStatus } from '../../../src/model/status.ts';
import { calmAccount, NOON } from '../../support/calm-account.ts';

const MINUTE = 60_000;
const ago = (minutes: number) => new Date(NOON - minutes * MINUTE).toISOString();

/** The value of a series so many minutes before noon; undefined: there was none. */
type Course = (minutesAgo: number) => number | undefined;

/** What is known besides the view. */
interface Scene {
  readonly change?: (view: ShownAccount) => void;
  /** By series; what is left out had the same value for the last 75 minutes. */
  readonly courses?: Readonly<Record<string, Course>>;
  readonly samples?: readonly (readonly [Family, readonly Sample[]])[];
  readonly firstSeen?: (problem: Pick<Problem, 'kind' | 'subject'>) => number | undefined;
}

const one = (value: number): readonly Sample[] => [{ labels: {}, value }];
const EXPECTED: readonly (readonly [Family, readonly Sample[]])[] = [
  [objectiveFamilies.dlqMaxAge, one(86_400)],
  [objectiveFamilies.window, one(30 * 86_400)],
];

function problems({ change, courses = {}, samples = [], firstSeen = () => undefined }: Scene): Problem[] {
  const view = calmAccount();
  const before = calmAccount();
  change?.(view);
  const byName = new Map([...EXPECTED, ...samples].map(([{ name }, each]) => [name, each]));
  const of = ({ name }: Pick<Family, 'name'>) => byName.get(name) ?? [];
  const usual = new Map<string, number>([
    ['delivery_dlq_messages', before.deadLetters.messages ?? 0],
    ['delivery_dlq_entered_total', before.deadLetters.entered ?? 0],
    ['delivery_messages_overdue_total', before.events.overdue],
    ['delivery_event_log_gaps_total', 0],
    ...Object.entries(before.events.finished).map(
      ([outcome, value]) => [seriesName('delivery_messages_finished_total', { outcome }), value] as const,
    ),
    ...Object.entries(before.events.total).map(
      ([state, value]) => [seriesName('delivery_events_total', { state }), value] as const,
    ),
    [seriesName('delivery_schedule_missed_total', { schedule: 'reports' }), 0],
    [seriesName('delivery_schedule_late_total', { schedule: 'reports' }), 0],
  ]);
  function recent(series: string, over: number): Point[] {
    const known = usual.get(series);
    const course =
      courses[series] ?? (known === undefined ? undefined : (minutes: number) => (minutes > 75 ? undefined : known));
    return Array.from({ length: over / MINUTE + 1 }, (_, index) => over / MINUTE - index).flatMap(minutes => {
      const value = course?.(minutes);
      return value === undefined ? [] : [{ at: NOON - minutes * MINUTE, value }];
    });
  }
  return problemsOf(view, { shown: { of, one: family => of(family)[0]?.value }, recent, firstSeen });
}

/** Line by line: severity, kind, subject, since when (minutes), what is said. */
const said = (scene: Scene) =>
  problems(scene).map(({ severity, kind, subject, since, text }) => {
    const minutes = (NOON - Date.parse(since ?? '')) / MINUTE;
    return `${severity} ${kind}${subject === null ? '' : ` (${subject})`} ${minutes} min: ${text}`;
  });

const rounds = (view: ShownAccount, change: (round: ShownAccount['rounds'][number]) => void, collector?: string) => {
  for (const round of view.rounds) {
    if (round.collector !== 'account' && (collector === undefined || round.collector === collector)) change(round);
  }
};
const failing =
  (state: 'failing' | 'stale' | 'withdrawn', reason: string, message: string) =>
  (round: ShownAccount['rounds'][number]) => {
    Object.assign(round, { state, consecutiveFailures: 9, failure: { reason, message }, dataAt: ago(4) });
  };
const row = (view: ShownAccount) => view.flowControl.rows[0] as ShownAccount['flowControl']['rows'][number];
const schedule = (view: ShownAccount) => view.schedules[0] as ShownAccount['schedules'][number];
const finished = (outcome: string) => seriesName('delivery_messages_finished_total', { outcome });
const waitlist = seriesName('delivery_flow_control_waitlist_size', { flow_control_key: 'tenant-7' });
const requests = (outcome: string, endpoint = 'dlq'): Sample => ({ labels: { endpoint, outcome }, value: 400 });
const outcomes = (outcome: string) => seriesName('delivery_watch_api_requests_total', { outcome });

describe('an account', () => {
  it('of which everything is known and nothing is wrong has no problem', () => {
    expect(said({})).toEqual([]);
  });

  it('of which nothing was ever read has none: nothing is judged from what is not known', () => {
    const nothing = (view: ShownAccount) => {
      rounds(view, round => Object.assign(round, { state: 'not_read', dataAt: null, tookSeconds: null }));
      for (const part of [view.deadLetters, view.events, view.flowControl]) part.data = 'not_read';
      Object.assign(view.calls, { budgetRemaining: null, tokenRejected: null });
    };
    expect(said({ change: nothing })).toEqual([]);
  });

  it('of a history that begins a moment ago has none: changes are not known', () => {
    const change = (view: ShownAccount) => {
      Object.assign(view.deadLetters, { messages: 900, entered: 9000 });
      Object.assign(view.events, { overdue: 900, finished: { delivered: 1, failed: 900, cancelled: 0 } });
      row(view).waiting = 9000;
    };
    const names = ['delivery_dlq_messages', 'delivery_dlq_entered_total', 'delivery_messages_overdue_total'];
    const none = Object.fromEntries(
      [...names, finished('failed'), finished('delivered'), waitlist].map(name => [name, () => undefined]),
    );
    expect(said({ change, courses: none })).toEqual([]);
  });
});

const CASES: readonly (readonly [what: string, scene: Scene, lines: readonly string[]])[] = [
  [
    'a token that the service refuses: all else follows from it',
    {
      change(view) {
        view.calls.tokenRejected = true;
        rounds(view, failing('stale', 'unauthorized', 'GET /v2/dlq: status 401'));
      },
    },
    ['critical token_rejected 4 min: The service refuses the token (401); what is shown was true at 11:56:00 UTC.'],
  ],
  [
    'a service that answers 503',
    { change: view => rounds(view, failing('stale', 'server', 'GET /v2/dlq: status 503')) },
    [
      'critical service_unavailable 4 min: The service has answered 503 for 4 min; what is shown was true at 11:56:00 UTC.',
    ],
  ],
  [
    'a service that can’t be reached, for so long that nothing is shown',
    { change: view => rounds(view, failing('withdrawn', 'network', 'GET /v2/dlq: ECONNREFUSED')) },
    [
      'critical service_unavailable 4 min: The service can’t be reached for 4 min (ECONNREFUSED); nothing is shown any more, as the last data is of 11:56:00 UTC.',
    ],
  ],
  [
    'a service that was down when the agent started',
    {
      change: view =>
        rounds(view, round => {
          failing('failing', 'timeout', 'GET /v2/dlq: no answer in time')(round);
          round.dataAt = null;
        }),
      firstSeen: () => NOON - 3 * MINUTE,
    },
    [
      'critical service_unavailable 3 min: The service has not answered in time for 3 min; nothing was read since the agent started.',
    ],
  ],
  ['one failed attempt', { change: view => rounds(view, failing('failing', 'server', 'GET /v2/dlq: status 503')) }, []],
  [
    'a collector that fails while others are read: nothing of it is judged',
    {
      change(view) {
        rounds(view, failing('stale', 'server', 'GET /v2/dlq: status 500'), 'dlq');
        Object.assign(view.deadLetters, { data: 'stale', messages: 9000, suspected: 8 });
      },
    },
    ['critical data_stale (dlq) 4 min: Dead letters were last read at 11:56:00 UTC: GET /v2/dlq: status 500.'],
  ],
  [
    'the same, withdrawn',
    { change: view => rounds(view, failing('withdrawn', 'invalid_response', 'GET /v2/dlq: not JSON'), 'dlq') },
    [
      'critical data_withdrawn (dlq) 4 min: Dead letters were last read at 11:56:00 UTC and are no longer shown: GET /v2/dlq: not JSON.',
    ],
  ],
  [
    'a round that no gauge depends on',
    {
      change: view =>
        rounds(view, round => {
          if (round.round === 'sweep') failing('stale', 'server', 'GET /v2/events: status 500')(round);
        }),
    },
    [
      'warning data_stale (events sweep) 4 min: The round sweep of events was not complete since 11:56:00 UTC; all gauges are current: GET /v2/events: status 500.',
    ],
  ],
  [
    'requests that get 429',
    {
      samples: [[ownFamilies.requests, [requests('ok'), requests('rate_limited'), requests('rate_limited', 'events')]]],
      courses: {
        [outcomes('ok')]: minutes => (minutes > 12 ? undefined : 300),
        [outcomes('rate_limited')]: minutes => (minutes > 12 ? undefined : 730),
      },
    },
    ['warning rate_limited 0 min: 70 of the 170 requests in 12 min got 429 (41 %).'],
  ],
  [
    'the requests of the day',
    { change: view => Object.assign(view.calls, { budgetRemaining: 40_000 }) },
    [
      'warning budget_low 0 min: 40,000 of the 200,000 requests of today are left until 00:00 UTC: rounds wait for them.',
    ],
  ],
  [
    'rows and lists that can’t be read',
    {
      samples: [
        [ownFamilies.rowsRejected, [{ labels: { collector: 'dlq' }, value: 12 }]],
        [ownFamilies.listsMissing, [{ labels: { collector: 'events' }, value: 3 }]],
      ],
      courses: {
        [seriesName('delivery_rows_rejected_total', { collector: 'dlq' })]: () => 0,
        [seriesName('delivery_lists_missing_total', { collector: 'events' })]: () => 0,
      },
    },
    [
      'warning rows_unreadable (dlq) 0 min: 12 rows of dlq could not be read in 15 min: what is shown is incomplete, and nothing counts as gone.',
      'warning lists_missing (events) 0 min: 3 answers to events in 15 min had no readable list; what was read before is shown.',
    ],
  ],
  [
    'messages that fail fast',
    {
      change: view => Object.assign(view.events, { finished: { delivered: 10_000, failed: 210, cancelled: 0 } }),
      courses: {
        [finished('delivered')]: minutes => 10_000 - 10 * minutes,
        [finished('failed')]: minutes => Math.round(210 - 3.5 * minutes),
      },
    },
    [
      'critical messages_failing 0 min: 210 of the 810 messages that ended in the last hour failed: 26 %, where the objective allows 1 %.',
    ],
  ],
  [
    'messages that fail slowly, since the agent was started',
    {
      change: view => Object.assign(view.events, { finished: { delivered: 1000, failed: 40, cancelled: 0 } }),
      courses: {
        [finished('delivered')]: minutes => (minutes > 12 ? undefined : 1000 - 20 * minutes),
        [finished('failed')]: minutes => (minutes > 12 ? undefined : 40 - minutes),
      },
    },
    [
      'warning messages_failing 0 min: 12 of the 252 messages that ended in 12 min failed: 4.8 %, where the objective allows 1 %.',
    ],
  ],
  [
    'the same, of too few messages',
    {
      change: view => Object.assign(view.events, { finished: { delivered: 1000, failed: 40, cancelled: 0 } }),
      courses: {
        [finished('delivered')]: minutes => (minutes > 9 ? undefined : 1000 - minutes),
        [finished('failed')]: minutes => (minutes > 9 ? undefined : 40 - minutes),
      },
    },
    [],
  ],
  [
    'messages that failed, and do no more',
    {
      change: view => Object.assign(view.events, { finished: { delivered: 10_000, failed: 210, cancelled: 0 } }),
      courses: {
        [finished('delivered')]: minutes => 10_000 - 10 * minutes,
        [finished('failed')]: minutes => (minutes > 20 ? 0 : 210),
      },
    },
    [],
  ],
  [
    'late messages, of which none ends',
    {
      change: view => Object.assign(view.events, { overdue: 65 }),
      courses: { delivery_messages_overdue_total: minutes => 65 - minutes },
    },
    ['critical deliveries_stalled 0 min: 30 messages became overdue in 30 min, and none was delivered or failed.'],
  ],
  [
    'late messages',
    {
      change: view =>
        Object.assign(view.events, { overdue: 65, finished: { delivered: 10_000, failed: 0, cancelled: 0 } }),
      courses: {
        delivery_messages_overdue_total: minutes => 65 - minutes,
        [finished('delivered')]: minutes => 10_000 - 4 * minutes,
        [finished('failed')]: () => 0,
      },
    },
    [
      'critical messages_late 0 min: 60 messages missed the target of 5 min in the last hour, 240 ended; the objective allows 1 % to be late.',
    ],
  ],
  [
    'retries',
    {
      change: view => Object.assign(view.events, { total: { active: 1100, retry: 340 } }),
      courses: {
        [seriesName('delivery_events_total', { state: 'active' })]: () => 1000,
        [seriesName('delivery_events_total', { state: 'retry' })]: () => 300,
      },
    },
    ['warning retries_high 0 min: 40 of the 100 delivery attempts in 15 min led to a retry (40 %).'],
  ],
  [
    'an event log that lags while dead letters arrive',
    {
      change(view) {
        view.events.newest = ago(20);
        view.deadLetters.entered = 501;
      },
    },
    [
      'warning event_log_behind 20 min: The event log is 19 min behind, although messages move: numbers of messages lag.',
    ],
  ],
  [
    'an event log that lags a little',
    {
      change(view) {
        view.events.newest = ago(4);
        view.events.total.created = 13_600;
      },
    },
    ['info event_log_behind 4 min: The event log is 3 min behind, after 3,600 events in the last hour.'],
  ],
  ['an account at rest', { change: view => Object.assign(view.events, { newest: ago(600) }) }, []],
  [
    'a gap in the log',
    { change: view => Object.assign(view.events, { gaps: 1 }) },
    ['warning event_log_gap 0 min: 1 gap in the event log in the last hour: counters of events are too low.'],
  ],
  [
    'a queue that grows at once',
    {
      change: view => Object.assign(view.deadLetters, { messages: 160, entered: 570 }),
    },
    [
      'warning dlq_growing 0 min: 70 dead letters entered in the last hour; the queue grew by 60 to 160 in 30 min; most: status 503 from api.example.com/orders (71).',
    ],
  ],
  [
    'a queue that grows by the hour',
    {
      change: view => Object.assign(view.deadLetters, { messages: 100, entered: 600 }),
      courses: { delivery_dlq_messages: minutes => 100 - minutes },
    },
    [
      'warning dlq_growing 0 min: 100 dead letters entered in the last hour; the queue grew by 60 to 100 in the last hour; most: status 503 from api.example.com/orders (71).',
    ],
  ],
  [
    'a queue that is a saw: removals show with the next walk',
    { courses: { delivery_dlq_messages: minutes => 100 + (minutes % 10) } },
    [],
  ],
  [
    'a dead letter that is too old, and about to expire',
    {
      change: view =>
        Object.assign(view.deadLetters, {
          oldestEntered: ago(6 * 1440),
          nextExpiry: ago(-1440),
          retentionSeconds: 7 * 86_400,
        }),
    },
    [
      'critical dlq_expiring 576 min: The longest-queued dead letter expires in 1 d, at 2026-03-15 12:00:00 UTC.',
      'warning dlq_old 7200 min: The longest-queued of 100 dead letters has been there for 6 d (objective: 1 d); most: status 503 from api.example.com/orders (71).',
    ],
  ],
  [
    'the same where most are left to expire',
    {
      change: view =>
        Object.assign(view.deadLetters, {
          oldestEntered: ago(6 * 1440),
          nextExpiry: ago(-1440),
          left: { expired: 900, removed: 400, unknown: 0 },
        }),
    },
    [
      'warning dlq_old 7200 min: The longest-queued of 100 dead letters has been there for 6 d (objective: 1 d); most: status 503 from api.example.com/orders (71).',
    ],
  ],
  [
    'a queue that is nearly full',
    { change: view => Object.assign(view.deadLetters, { most: 120 }) },
    ['warning dlq_nearly_full 0 min: The dead-letter queue holds 100 of the 120 messages that the plan allows (83 %).'],
  ],
  [
    'callbacks that seem stuck, and others that fail',
    {
      change: view =>
        Object.assign(view.deadLetters, {
          suspected: 8,
          oldestInProgress: ago(552),
          callbacks: { success: 10, fail: 5 },
        }),
    },
    [
      'warning callbacks_stuck 552 min: 8 failure callbacks seem stuck, the oldest for 9 h 12 min.',
      'warning callbacks_failing 0 min: 5 of the 15 failure callbacks that ended failed: these workflows were not told.',
    ],
  ],
  [
    'callbacks that a rule calls stuck',
    { samples: [[autoCancelFamilies.candidates, [{ labels: { rule: 'hung' }, value: 1 }]]] },
    ['warning callbacks_stuck 10 min: 1 failure callback seems stuck by the rule hung, the oldest for 10 min.'],
  ],
  [
    'a waitlist that grows all the time',
    {
      change: view => Object.assign(row(view), { waiting: 2310, parallelismInUse: 10 }),
      courses: { [waitlist]: minutes => (minutes > 15 ? undefined : 2310 - 43 * minutes) },
    },
    [
      'warning waitlist_growing (tenant-7) 0 min: Key tenant-7: 2,310 wait, +645 in 15 min; parallelism 10 of 10 in use.',
    ],
  ],
  [
    'bursts that are worked off',
    {
      change: view => Object.assign(row(view), { waiting: 400 }),
      courses: { [waitlist]: minutes => (minutes % 20 < 5 ? 400 : 0) },
    },
    [],
  ],
  [
    'a key that was seldom among the largest',
    {
      change: view => Object.assign(row(view), { waiting: 400 }),
      courses: { [waitlist]: minutes => (minutes === 60 ? 0 : minutes < 20 ? 400 : undefined) },
    },
    [],
  ],
  [
    'a waitlist that does not move',
    { courses: { [waitlist]: () => 10 } },
    [
      'warning waitlist_stalled (tenant-7) 30 min: Key tenant-7: the same 10 have been waiting for 30 min or more; parallelism 3 of 10 in use.',
    ],
  ],
  [
    'waitlists that are read every half an hour: they may have moved in between',
    {
      change(view) {
        rounds(view, round => Object.assign(round, { everySeconds: 1800 }), 'flow_control');
        row(view).waiting = 400;
      },
      courses: { [waitlist]: minutes => (minutes < 31 ? 400 : 0) },
    },
    [],
  ],
  [
    'a key that was paused a moment ago',
    { change: view => Object.assign(row(view), { paused: true }), courses: { [waitlist]: () => 10 } },
    ['info paused_with_backlog (tenant-7) 0 min: Key tenant-7 is paused: 10 wait.'],
  ],
  [
    'a key that is paused for long',
    {
      change: view => Object.assign(row(view), { paused: true }),
      firstSeen: () => NOON - 90 * MINUTE,
    },
    ['warning paused_with_backlog (tenant-7) 90 min: Key tenant-7 is paused for 1 h 30 min or more: 10 wait.'],
  ],
  [
    'a schedule that does not start',
    { change: view => Object.assign(schedule(view), { state: 'missed', missed: 5, lastStarted: ago(120) }) },
    [
      'warning schedule_missed (reports) 120 min: Schedule reports: no message since 10:00:00 UTC; 5 starts missed in the last hour.',
    ],
  ],
  [
    'a schedule that started again',
    { change: view => Object.assign(schedule(view), { missed: 2, lastStarted: ago(1) }) },
    [
      'warning schedule_missed (reports) 0 min: Schedule reports: 2 starts missed in the last hour; it started again, last at 11:59:00 UTC.',
    ],
  ],
  [
    'a schedule of which one start was missed, and one late, and which is fine again',
    { change: view => Object.assign(schedule(view), { missed: 1, late: 1 }) },
    [],
  ],
  [
    'a schedule whose messages are late',
    { change: view => Object.assign(schedule(view), { state: 'late', late: 2, lastDelivered: ago(120) }) },
    [
      'warning schedule_late (reports) 0 min: Schedule reports: not delivered in time, last delivery at 10:00:00 UTC; 2 starts not delivered in time in the last hour.',
    ],
  ],
  [
    'a schedule of every minute, of which more than a tenth came late',
    { change: view => Object.assign(schedule(view), { late: 7, lastDelivered: ago(39) }) },
    [
      'warning schedule_late (reports) 0 min: Schedule reports: delivered again, last delivery at 11:21:00 UTC; 7 starts not delivered in time in the last hour.',
    ],
  ],
  [
    'a schedule of every minute, of which a tenth came late: some retries are usual',
    { change: view => Object.assign(schedule(view), { late: 6 }) },
    [],
  ],
  [
    'a schedule of every ten minutes, of which two came late',
    { change: view => Object.assign(schedule(view), { late: 2, next: ago(-9) }) },
    [
      'warning schedule_late (reports) 0 min: Schedule reports: delivered again, last delivery at 11:59:21 UTC; 2 starts not delivered in time in the last hour.',
    ],
  ],
  [
    'a daily schedule whose messages failed',
    { change: view => Object.assign(schedule(view), { state: 'failing', lastDelivered: ago(1500), next: ago(-1380) }) },
    [
      'warning schedule_late (reports) 0 min: Schedule reports: its last messages failed, last delivery at 2026-03-13 11:00:00 UTC.',
    ],
  ],
  [
    'a schedule of every minute, of which a message failed',
    { change: view => Object.assign(schedule(view), { state: 'failing' }) },
    [],
  ],
  [
    'auto-cancel that stands still',
    {
      samples: [
        [
          autoCancelFamilies.breakerOpen,
          [
            { labels: { breaker: 'errors' }, value: 1 },
            { labels: { breaker: 'candidates' }, value: 0 },
          ],
        ],
        [autoCancelFamilies.paused, one(1)],
        [autoCancelFamilies.oldestUnresolved, [{ labels: { rule: 'hung' }, value: NOON / 1000 - 2400 }]],
      ],
    },
    [
      'critical cancel_unresolved (hung) 40 min: A cancel by the rule hung has had no known outcome for 40 min.',
      'warning breaker_open (errors) 0 min: The breaker errors is open: nothing is cancelled until an operator resets it.',
      'info auto_cancel_paused 0 min: Auto-cancel is paused: nothing is cancelled until an operator resumes it.',
    ],
  ],
];

it('what is near its threshold does not come and go: once said, it stays until it is well below', () => {
  const scene = (messages: number, failed: number): Scene => ({
    change(view) {
      Object.assign(view.deadLetters, { messages });
      Object.assign(view.events, { finished: { delivered: 10_000, failed, cancelled: 0 } });
    },
    courses: {
      [finished('delivered')]: minutes => 10_000 - 50 * minutes,
      [finished('failed')]: minutes => Math.round(failed * (1 - minutes / 60)),
    },
  });
  const kinds = (messages: number, failed: number, isSaid: boolean) =>
    problems({ ...scene(messages, failed), ...(isSaid ? { firstSeen: () => NOON - 3 * MINUTE } : {}) }).map(
      ({ severity, kind }) => `${severity} ${kind}`,
    );
  // 20 of 100 messages, and 3 % that failed, are the thresholds.
  expect([kinds(116, 75, false), kinds(113, 60, true)]).toEqual([[], []]);
  expect(kinds(116, 75, true).sort()).toEqual(['warning dlq_growing', 'warning messages_failing']);
});

describe('what is said of', () => {
  it.each(CASES)('%s', (_what, scene, lines) => {
    expect(said(scene)).toEqual(lines);
  });

  it('every kind of problem', () => {
    const ofAccount = new Set(ACCOUNT_CHECKS.map(({ kind }) => kind));
    const tried = new Set(CASES.flatMap(([, scene]) => problems(scene).map(({ kind }) => kind)));
    expect([...ofAccount].filter(kind => !tried.has(kind))).toEqual([]);
    const known = new Set([...ofAccount, ...AGENT_CHECKS.map(({ kind }) => kind)]);
    // Of counters by destination no history is kept; what is not shown is not judged.
    expect(PROBLEM_KINDS.filter(kind => !known.has(kind))).toEqual(['destination_failing', 'not_shown']);
  });
});

it('orders by severity, then by age', () => {
  const of = (severity: Problem['severity'], since: string | null): Problem => ({
    account: 'a',
    kind: 'dlq_old',
    severity,
    subject: null,
    since,
    text: '',
    runbook: null,
  });
  const ordered = [
    of('critical', ago(1)),
    of('warning', ago(9)),
    of('warning', ago(2)),
    of('warning', null),
    of('info', ago(99)),
  ];
  expect([...ordered].reverse().sort(byWeight)).toEqual(ordered);
});

describe('the tables', () => {
  const all = [...ACCOUNT_CHECKS, ...AGENT_CHECKS];
  const alerts = new Map<string, string>(
    alertGroups.flatMap(({ alerts }) => alerts.map(({ name, severity }) => [name, severity] as const)),
  );

  it('name runbooks that there are', () => {
    const files = new Set(readdirSync(new URL('../../../docs/runbooks/', import.meta.url)));
    expect(all.filter(({ runbook }) => runbook !== null && !files.has(`${runbook}.md`))).toEqual([]);
  });

  it('are as severe as the shipped alerts: only what no alert is sent for is less', () => {
    const others = all.filter(({ runbook, severity }) => runbook !== null && alerts.get(runbook) !== severity);
    expect(others.map(({ kind, severity }) => `${severity} ${kind}`)).toEqual(['info event_log_behind']);
  });
});

describe('the agent', () => {
  const round = { round: 'new', every: 1000, dataAt: 1, durationSeconds: 1, idle: undefined, stale: false };
  const status = (change: object): AccountStatus => ({
    account: 'a',
    up: true,
    collectors: [
      {
        collector: 'dlq',
        withdrawn: false,
        rounds: [{ ...round, success: true, complete: true, consecutiveFailures: 0, failure: undefined, ...change }],
      },
    ],
  });
  const notified = (outcome: string, value: number): Sample => ({ labels: { notifier: 'ops', outcome }, value });
  const agent = (evidence: Partial<Parameters<typeof agentProblemsOf>[0]>) =>
    agentProblemsOf({
      now: NOON,
      statuses: [status({})],
      notifications: [],
      lastReload: undefined,
      firstSeen: () => undefined,
      ...evidence,
    }).map(({ account, severity, kind, subject, since, text }) =>
      [account, severity, kind, subject, since, text].join(' | '),
    );

  it('has no problem where nothing is wrong', () => {
    expect(
      agent({ notifications: [notified('sent', 1), notified('failed', 9)], lastReload: { at: 1, faults: [] } }),
    ).toEqual([]);
  });

  it('says what is wrong', () => {
    const failed = {
      success: false,
      consecutiveFailures: 3,
      failure: { reason: 'store', message: 'dw.db can’t be written' },
    };
    const dark = { stale: true, success: false, complete: false, consecutiveFailures: 3 };
    expect(
      agent({
        statuses: [status(failed), ...['b', 'c', 'd'].map(() => status(dark))],
        notifications: [notified('sent', 0), notified('failed', 2), notified('dropped', 1)],
        lastReload: { at: NOON - MINUTE, faults: [{ message: 'accounts: required' }, { message: 'other' }] },
      }),
    ).toMatchInlineSnapshot(`
      [
        " | critical | service_unavailable |  | 2026-03-14T12:00:00.000Z | 3 of the 4 accounts can’t be read: the service is down, or the network path to it.",
        " | critical | store_failing |  | 2026-03-14T12:00:00.000Z | 1 round can’t store what was read, so counters stand still: dw.db can’t be written.",
        " | critical | notifications_failing | ops | 2026-03-14T12:00:00.000Z | 3 notifications to ops failed in the last 15 minutes, and none was delivered.",
        " | warning | reload_refused |  | 2026-03-14T11:59:00.000Z | The changed configuration was refused, and the one before is in use: accounts: required (and 1 other fault).",
      ]
    `);
  });
});
