import { accountPlan, isOptional } from '../collectors/index.ts';
import type { AccountStatus } from '../model/status.ts';
import { dataStatusOf } from '../rules/checks/account.ts';
import type { Problem } from './api/parts.ts';
import { type AccountReport, type HealthVerdict, type Report, VERDICTS } from './api/report.ts';
import type { OverviewData, OverviewRow } from './overview.ts';
import { iso, isoTime, orNull } from './values.ts';

/** Problems with reading data, which make the account's state unknown instead of bad. */
const OF_READING: ReadonlySet<Problem['kind']> = new Set<Problem['kind']>([
  'token_rejected',
  'service_unavailable',
  'data_stale',
  'not_shown',
]);

function verdictOf(problems: readonly Problem[], isKnown: boolean): HealthVerdict {
  const counted = problems.filter(({ severity }) => severity !== 'info');
  if (counted.some(({ kind }) => !OF_READING.has(kind))) return 'problems';
  return counted.length > 0 || !isKnown ? 'unknown' : 'healthy';
}

/** Returns the parts of an account without current, complete data. */
function unknownParts({ row }: OverviewRow, status: AccountStatus | undefined): AccountReport['unknown'] {
  const collectors = (status?.collectors ?? []).filter(
    ({ collector }) => collector !== accountPlan.name && !isOptional(collector),
  );
  const parts = collectors.flatMap(({ collector, rounds }) => {
    const { data, at } = dataStatusOf({ collectors }, collector);
    if (data === 'fresh') return [];
    const failure = rounds.find(round => round.failure)?.failure?.message;
    const retries = rounds.flatMap(({ retryAt }) => retryAt ?? []);
    const retryAt = isoTime(retries.length > 0 ? Math.min(...retries) : undefined);
    return [{ collector, data, dataAt: isoTime(at), failure: orNull(failure), retryAt }];
  });
  if (parts.length > 0 || (collectors.length > 0 && row.data === 'fresh')) return parts;
  const data = row.data === 'fresh' ? 'not_read' : row.data;
  return [{ collector: null, data, dataAt: row.dataAt, failure: null, retryAt: null }];
}

function accountReport(row: OverviewRow, status: AccountStatus | undefined): AccountReport {
  const { account, dataAt, deadLetters } = row.row;
  const unknown = unknownParts(row, status);
  return {
    account,
    verdict: verdictOf(row.problems, unknown.length === 0),
    problems: [...row.problems],
    unknown,
    dataAt,
    deadLetters,
  };
}

export interface ReportInput extends Omit<OverviewData, 'alerts'>, Pick<Report, 'externalUrl'> {
  readonly statuses: readonly AccountStatus[];
}

/** Reports the results of the built-in checks. Accounts without current data do not count as healthy. */
export function reportOf({ rows, statuses, agentProblems, now, ...rest }: ReportInput): Report {
  const byName = new Map(statuses.map(status => [status.account, status]));
  const accounts = rows.map(row => accountReport(row, byName.get(row.row.account)));
  const agent = { verdict: verdictOf(agentProblems, true), problems: [...agentProblems] };
  const verdicts = new Set([agent, ...accounts].map(({ verdict }) => verdict));
  const verdict = VERDICTS.find(each => verdicts.has(each)) ?? 'unknown';
  return { now: iso(now), ...rest, verdict, agent, accounts };
}
