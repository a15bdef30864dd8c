import { createDestinationTally, createLogTally } from '../../src/collectors/events/tally.ts';
import {
  collectors,
  type DlqFacts,
  type EventsFacts,
  type KeyLimits,
  type ListedSchedule,
  type PlanFacts,
  type RunsFacts,
  type ScheduleFacts,
  type ScheduleListFacts,
  type SelectionFacts,
  type TrackedKey,
} from '../../src/collectors/index.ts';
import { type AccountMeter, createAccountMeter } from '../../src/metrics/own.ts';
import type { GlobalParallelism } from '../../src/model/service.ts';
import type { FailedFilter, RoundStatus } from '../../src/model/status.ts';
import type { CheckedAccount, CheckedSettings } from '../../src/rules/checks/account.ts';

/** Noon (ms since the Unix epoch). */
export const NOON = Date.UTC(2026, 2, 14, 12);

const SECOND = 1000;
const DAY = 86_400_000;
const ago = (seconds: number) => NOON - seconds * SECOND;

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export type CalmRound = Mutable<RoundStatus>;

const round = (name: string, everySeconds: number): CalmRound => ({
  round: name,
  every: everySeconds * SECOND,
  success: true,
  complete: true,
  partial: false,
  durationSeconds: 0.1,
  dataAt: ago(10),
  consecutiveFailures: 0,
  stale: false,
});

const collector = (name: string, ...rounds: CalmRound[]) => ({
  collector: name,
  withdrawn: false,
  rounds,
  failedFilters: [] as FailedFilter[],
});

const QUEUE: SelectionFacts = {
  key: 'all',
  messages: 100,
  oldestEntered: ago(3600),
  entered: 500,
  left: { expired: 0, removed: 400, unknown: 0 },
  isProven: true,
  isContradicted: false,
};

const KEY: TrackedKey = {
  key: 'tenant-7',
  waitlistSize: 10,
  state: 'moving',
  since: ago(1),
  parallelismLimit: 10,
  parallelismInUse: 3,
  paused: false,
};

function dlqFacts() {
  const facts: DlqFacts = {
    selections: new Map(),
    breakdowns: new Map(),
    beyondCap: new Map(),
    callbacks: { in_progress: 3, success: 90, fail: 2, canceled: 0, unknown: 0 },
    kinds: {
      count: 1,
      appeared: 0,
      others: 0,
      largest: [
        {
          id: 'a',
          urlHost: 'api.example.com',
          route: '/orders',
          responseStatus: '503',
          messages: 71,
          sample: undefined,
        },
      ],
    },
    newest: [],
    longest: [],
    foundByRescan: 0,
    enteredByHost: undefined,
    endedCallbacks: { success: 0, fail: 0, canceled: 0 },
    tracked: undefined,
    suspected: 0,
    oldestInProgress: ago(600),
  };
  return { ...(facts as Mutable<DlqFacts>), selections: new Map([['all', { ...(QUEUE as Mutable<SelectionFacts>) }]]) };
}

function eventsFacts() {
  const tally = createDestinationTally();
  Object.assign(tally.events, { created: 10_000, active: 10_500, delivered: 9990, retry: 300, failed: 10 });
  Object.assign(tally.finished, { delivered: 9990, failed: 10, cancelled: 0 });
  return {
    gauges: {
      recent: { ...createDestinationTally().events, delivered: 100 },
      newest: ago(15),
      lag: 0,
      inFlight: 12,
      oldestInFlight: ago(30),
      overdue: 0,
    },
    windowMs: 300_000,
    since: ago(86_400),
    log: { ...createLogTally(), overdue: 5 },
    destinations: new Map([['', tally]]),
    schedules: new Map<string, { -readonly [K in keyof ScheduleFacts]: ScheduleFacts[K] }>([
      [
        'reports',
        {
          lastStarted: ago(40),
          lastDelivered: ago(39),
          next: ago(-20),
          missed: 0,
          late: 0,
          judged: { at: ago(40), as: 'ok' },
        },
      ],
    ]),
    doubleStarts: new Map(),
    beyondCap: 0,
    queues: { from: ago(86_400), deliveries: new Map([['mail', ago(60)]]) },
    labelled: { counters: false, histograms: false },
  };
}

function scheduleListFacts() {
  const row = {
    scheduleId: 'scd_1',
    cron: '0 * * * *',
    destination: 'https://api.example.com/hourly?key=secret',
    paused: false as boolean | undefined,
    lastRunAt: ago(1800),
    nextRunAt: ago(-1800),
    lastRunStates: { in_progress: 0, success: 1, fail: 0, unknown: 0 },
    error: undefined as string | undefined,
    labels: [],
  };
  const history: Mutable<ListedSchedule['history']> = {
    id: 'scd_1',
    seenAt: ago(1_000_000),
    expectedTo: ago(10_000),
    lastRunAt: row.lastRunAt,
    missed: 0,
    unexpected: 0,
  };
  const schedule = { name: 'scd_1', isConfigured: false, row, history };
  return {
    states: { active: 1, paused: 0 },
    listed: [schedule],
    gone: [] as { name: string; history: ListedSchedule['history'] }[],
    beyondCap: 0,
  } satisfies ScheduleListFacts;
}

/** Creates the facts of an account at `NOON` without problems, for tests to modify. All facts are committed. */
export function calmAccount() {
  const [dlq, events, scheduleList] = [dlqFacts(), eventsFacts(), scheduleListFacts()];
  const keys = [{ ...(KEY as Mutable<TrackedKey>) }];
  const parallelism = { limit: 100, inUse: 7 } as GlobalParallelism | undefined;
  const queue = { name: 'mail', lag: 4, paused: false as boolean | undefined, parallelismLimit: 2 };
  const limits = { dlq_size: 10_000, requests_per_day: 500_000 };
  const read = { plan: 'paid', state: 'active', limits, readAt: ago(600) };
  const plan = { read, record: read, limits, usage: { at: ago(600), requestsToday: 120_000, dlqMessages: 100 } };
  const settings = {
    retention: { dlq: 7 * DAY, events: null },
    budget: { requestsPerSecond: 5, burst: 10, concurrency: 4, requestsPerDay: 200_000 },
    objectives: { delivered: 0.99, onTime: 0.99, onTimeWithin: 300_000, window: 30 * DAY, dlqMaxAge: DAY },
  } satisfies CheckedSettings;
  const meter: AccountMeter = createAccountMeter({
    requests: [],
    bytes: [],
    collectors: collectors.map(({ name }) => name),
  });
  return {
    now: NOON,
    serviceNow: NOON,
    clockSkew: 0 as number | undefined,
    settings,
    collectors: {
      schedules: collector('schedules', round('schedules', 300)),
      flow_control: collector('flow_control', round('list', 15)),
      dlq: collector('dlq', round('new', 30), round('full', 600)),
      events: collector('events', round('tail', 15), round('sweep', 300)),
      runs: collector('runs', round('runs', 900)),
      queues: collector('queues', round('queues', 300)),
      account: collector('account', round('record', 15), round('usage', 1800)),
    },
    notOpened: undefined as CheckedAccount['notOpened'],
    /** Facts of the collectors. */
    dlq,
    events,
    scheduleList,
    keys,
    runs: { olderThan: 3_600_000, count: 0, hasMore: false, oldest: undefined } as RunsFacts,
    limits: new Map<string, KeyLimits>(),
    parallelism,
    queue,
    plan,
    meter,
    budgetRemaining: 150_000 as number | undefined,
    isTokenRejected: false as boolean | undefined,
    autoCancelFailure: undefined as Error | undefined,
  };
}

export type CalmAccount = ReturnType<typeof calmAccount>;

/** Returns the input of the checks for a modified account. Collectors without data show no facts. */
export function checkedAccountOf(
  account: CalmAccount,
  { autoCancel, recent }: Pick<CheckedAccount, 'autoCancel' | 'recent'>,
): CheckedAccount {
  const { collectors, dlq, events, scheduleList, keys, runs, limits, parallelism, queue, plan, ...rest } = account;
  const all = Object.values(collectors);
  const visible = <F>(name: keyof typeof collectors, facts: F) => {
    const { withdrawn, rounds } = collectors[name] ?? { withdrawn: true, rounds: [] };
    const isRead = !withdrawn && rounds.some(({ dataAt }) => dataAt !== undefined);
    return { now: isRead ? facts : undefined, committed: facts };
  };
  return {
    ...rest,
    status: { collectors: all },
    shown: {
      dlq: visible<DlqFacts>('dlq', dlq),
      events: visible<EventsFacts>('events', events),
      schedules: visible<ScheduleListFacts>('schedules', scheduleList),
      flow_control: visible('flow_control', {
        keys: keys.length,
        shown: keys,
        beyondCap: 0,
        beyondCapWaiting: 0,
        limits,
        parallelism,
      }),
      queues: visible('queues', { shown: [queue], beyondCap: 0, beyondCapLag: 0 }),
      runs: visible<RunsFacts>('runs', runs),
      account: visible<PlanFacts>('account', plan),
    },
    autoCancel,
    recent,
  };
}
