import { isDeciding } from '../../collectors/index.ts';
import type { AccountStatus, CollectorStatus, DataStateName, FailedFilter, RoundStatus } from '../../model/status.ts';

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

/**
 * Returns the time of a collector's data. Any of the collector's rounds can refresh the data, but stale rounds make all data as
 * old as theirs.
 */
function currentAt(rounds: readonly RoundStatus[]): number | undefined {
  const missed = rounds.filter(({ stale }) => stale).flatMap(({ dataAt }) => dataAt ?? []);
  const times = rounds.flatMap(({ dataAt }) => dataAt ?? []);
  if (times.length === 0) return undefined;
  return Math.max(...(missed.length > 0 ? missed : times));
}

export function dataStatusOf({ collectors }: Pick<AccountStatus, 'collectors'>, collector: string): DataStatus {
  const status = collectors.find(each => each.collector === collector);
  const isAbsent = status?.rounds.every(({ idle }) => idle === 'absent');
  if (!status || isAbsent) return { enabled: false, data: 'not_read', at: undefined, failedFilters: [] };
  const data = dataOf(status);
  const isShown = data !== 'withdrawn' && data !== 'not_read';
  const { failedFilters = [] } = status;
  return { enabled: true, data, at: isShown ? currentAt(mainRounds(status)) : undefined, failedFilters };
}
