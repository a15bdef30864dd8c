import {
  eventTotals,
  type FlowControlFacts,
  hasFailed,
  isDeciding,
  isMissing,
  type ListedSchedule,
  OTHER,
  planOf,
  retentionOf,
  type ScheduleFacts,
  type ShownFacts,
  type TrackedKey,
} from '../../collectors/index.ts';
import { createRecentChanges, type RecentChanges } from '../../history/recent.ts';
import type { Objectives } from '../../metrics/objectives.ts';
import { type AccountMeter, isCounting } from '../../metrics/own.ts';
import type { AccountHistory } from '../../model/history.ts';
import type { AutoCancelNumbers } from '../../model/journal.ts';
import type { AccountStatus, CollectorStatus, DataStateName, FailedFilter, RoundStatus } from '../../model/status.ts';
import type { AccountOptions } from '../../upstream/options.ts';

export interface CheckedRound extends RoundStatus {
  readonly collector: string;
  readonly state: 'ok' | 'partial' | 'failing' | 'stale' | 'withdrawn' | 'waiting' | 'not_due' | 'absent' | 'not_read';
}

function stateOf({ stale, success, complete, idle, dataAt }: RoundStatus, withdrawn: boolean): CheckedRound['state'] {
  if (stale) return withdrawn ? 'withdrawn' : 'stale';
  if (success === false) return 'failing';
  if (idle !== undefined) return idle;
  if (dataAt === undefined) return 'not_read';
  return complete === false ? 'partial' : 'ok';
}

export const roundsOf = ({ collectors }: Pick<AccountStatus, 'collectors'>): readonly CheckedRound[] =>
  collectors.flatMap(({ collector, withdrawn, rounds }) =>
    rounds.map(round => ({ ...round, collector, state: stateOf(round, withdrawn) })),
  );

export interface DataStatus {
  readonly enabled: boolean;
  readonly data: DataStateName;
  /** Time as of which the shown data is current (ms since the Unix epoch); undefined if no data is shown. */
  readonly at: number | undefined;
  readonly failedFilters: readonly FailedFilter[];
}

/** Returns the rounds that gauges depend on. */
const mainRounds = ({ collector, rounds }: CollectorStatus) =>
  rounds.filter(({ round }) => isDeciding(collector, round));

function dataOf(status: CollectorStatus): DataStateName {
  const rounds = mainRounds(status);
  if (status.withdrawn) return 'withdrawn';
  if (rounds.every(({ dataAt }) => dataAt === undefined)) return 'not_read';
  if (rounds.some(({ stale }) => stale)) return 'stale';
  return status.rounds.some(({ partial = false }) => partial) ? 'partial' : 'fresh';
}

/** Returns the start of the newest complete round; undefined if none has completed since the agent started. */
export function newestOf(rounds: readonly Pick<RoundStatus, 'dataAt'>[]): number | undefined {
  const times = rounds.flatMap(({ dataAt }) => dataAt ?? []);
  return times.length === 0 ? undefined : Math.max(...times);
}

/** Returns the time as of which a collector's data is current. If any rounds are stale, only these count. */
const currentAt = (rounds: readonly RoundStatus[]) => newestOf(rounds.filter(({ stale }) => stale)) ?? newestOf(rounds);

export function dataStatusOf({ collectors }: Pick<AccountStatus, 'collectors'>, collector: string): DataStatus {
  const status = collectors.find(each => each.collector === collector);
  const isAbsent = status?.rounds.every(({ idle }) => idle === 'absent');
  if (!status || isAbsent) return { enabled: false, data: 'not_read', at: undefined, failedFilters: [] };
  const data = dataOf(status);
  const isShown = data !== 'withdrawn' && data !== 'not_read';
  const { failedFilters = [] } = status;
  return { enabled: true, data, at: isShown ? currentAt(mainRounds(status)) : undefined, failedFilters };
}

export interface CheckedSettings extends Pick<AccountOptions, 'retention' | 'budget'> {
  readonly objectives: Objectives;
}

/** Everything that the checks of an account read. Undefined: unknown. */
export interface CheckedAccount {
  /** Times are in milliseconds since the Unix epoch. */
  readonly now: number;
  /** `now` by the service's clock, for comparison with times in the service's data. */
  readonly serviceNow: number;
  /** The service's clock minus the agent's (ms). */
  readonly clockSkew: number | undefined;
  readonly settings: CheckedSettings;
  readonly status: Pick<AccountStatus, 'collectors'>;
  readonly notOpened?: { readonly reason: string; readonly since: number } | undefined;
  readonly shown: ShownFacts;
  readonly meter: Pick<AccountMeter, 'requests'>;
  readonly budgetRemaining: number | undefined;
  readonly isTokenRejected: boolean | undefined;
  readonly autoCancel: AutoCancelNumbers | undefined;
  readonly autoCancelFailure?: Error | undefined;
  readonly recent: AccountHistory['recent'];
}

/** A schedule with its committed counts. The other facts are absent while their source is unreadable. */
export interface CheckedSchedule extends Partial<Omit<ScheduleFacts, 'lastStarted'>> {
  readonly name: string;
  readonly lastStarted?: number | undefined;
  /** Result of the last expected start. */
  readonly state: 'ok' | 'missed' | 'late' | 'failing' | 'paused' | 'unknown';
  /** Collector of the data that shows missed starts. */
  readonly source: 'events' | 'schedules';
  readonly listed?: ListedSchedule | undefined;
  readonly missed: number;
  /** Number of late starts; undefined for schedules that are not configured, because they have no `endsWithin`. */
  readonly late?: number;
}

/** `CheckedAccount` and values derived from it, which several checks share with each other or with the account's view. */
export interface CheckInput extends CheckedAccount {
  readonly changes: RecentChanges;
  readonly rounds: readonly CheckedRound[];
  readonly dataOf: (collector: string) => DataStatus;
  /** Whether events are read and stored as they happen; undefined if they are not read at all. */
  readonly isCounting: boolean | undefined;
  readonly events: ReturnType<typeof eventTotals>;
  readonly keys: readonly TrackedKey[];
  readonly schedules: readonly CheckedSchedule[];
  /** Maximum size of the dead-letter queue in the plan. */
  readonly maxDeadLetters: number | undefined;
  /** Retention of dead letters (ms). */
  readonly retention: number | undefined;
}

/** Maximum number of evaluated and listed keys. */
const MAX_KEYS = 100;

const bySize = (a: TrackedKey, b: TrackedKey) =>
  (b.waitlistSize ?? 0) - (a.waitlistSize ?? 0) || (a.key < b.key ? -1 : 1);

const largestKeys = (facts: FlowControlFacts | undefined): readonly TrackedKey[] =>
  (facts?.shown ?? [])
    .filter(({ key }) => key !== OTHER)
    .sort(bySize)
    .slice(0, MAX_KEYS);

function scheduleStateOf(facts: ScheduleFacts | undefined): CheckedSchedule['state'] {
  const { judged, lastDelivered = 0, lastFailed = 0 } = facts ?? {};
  if (judged?.as === 'missed') return 'missed';
  // Check for a failure first: the message may fail before its start counts as late.
  if (lastFailed > lastDelivered) return 'failing';
  return judged === undefined || judged.as === 'unread' ? 'unknown' : judged.as;
}

function listedStateOf({ row, history }: ListedSchedule): CheckedSchedule['state'] {
  if (row.paused !== false) return row.paused ? 'paused' : 'unknown';
  if (isMissing(history)) return 'missed';
  return hasFailed(row) ? 'failing' : 'ok';
}

/** Returns the configured schedules and schedules that only the service lists. */
function schedulesOf({ events, schedules }: ShownFacts): readonly CheckedSchedule[] {
  const listed = new Map(schedules?.now?.listed.map(each => [each.name, each]));
  const configured = [...(events?.committed?.schedules ?? [])].map(([name, { missed, late }]): CheckedSchedule => {
    const facts = events?.now?.schedules.get(name);
    const row = listed.get(name);
    const state = row?.row.paused ? 'paused' : scheduleStateOf(facts);
    return { ...facts, name, state, missed, late, source: 'events', listed: row };
  });
  const others = (schedules?.committed?.listed ?? []).flatMap(({ name, isConfigured, history }): CheckedSchedule[] => {
    if (isConfigured) return [];
    const row = listed.get(name);
    const lastStarted = row?.history.lastRunAt;
    const state = row ? listedStateOf(row) : 'unknown';
    const next = state === 'paused' ? undefined : row?.row.nextRunAt;
    return [{ name, state, lastStarted, next, missed: history.missed, source: 'schedules', listed: row }];
  });
  return [...configured, ...others];
}

export function checkInputOf(account: CheckedAccount): CheckInput {
  const { status, shown, settings, now } = account;
  const plan = planOf(shown.account);
  const retention = retentionOf(settings, plan);
  return {
    ...account,
    changes: createRecentChanges(account, now),
    rounds: roundsOf(status),
    dataOf: collector => dataStatusOf(status, collector),
    isCounting: isCounting(status),
    events: eventTotals(shown.events?.committed),
    keys: largestKeys(shown.flow_control?.now),
    schedules: schedulesOf(shown),
    maxDeadLetters: plan?.limits.dlq_size,
    retention: retention === undefined ? undefined : 1000 * retention,
  };
}
