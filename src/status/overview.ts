import { recordOf } from '../kit/record.ts';
import type { ShownAlert } from '../rules/alerting.ts';
import { stateOf } from './account.ts';
import type { Overview, OverviewQuery } from './api/overview.ts';
import { ACCOUNT_STATES, type Problem } from './api/parts.ts';
import type { OverviewRow } from './overview-rows.ts';
import { byWeight } from './problems.ts';
import { iso, sum } from './values.ts';

/** Maximum number of listed problems or alerts. */
const MAX_LISTED = 100;

/** Sorts rows by state, worst first, then by their worst problem, then by name. */
function byAttention({ row: a }: OverviewRow, { row: b }: OverviewRow): number {
  const byState = ACCOUNT_STATES.indexOf(a.state) - ACCOUNT_STATES.indexOf(b.state);
  const byWorst = a.worst && b.worst ? byWeight(a.worst, b.worst) : Number(a.worst === null) - Number(b.worst === null);
  return byState || byWorst || (a.account < b.account ? -1 : 1);
}

function matcherOf({ q, state }: OverviewQuery): (row: OverviewRow) => boolean {
  const part = q.toLowerCase();
  const has = (text: string) => text.toLowerCase().includes(part);
  return ({ row }) =>
    (state === 'any' || row.state === state) && (has(row.account) || Object.values(row.labels).some(has));
}

export interface OverviewData {
  readonly rows: readonly OverviewRow[];
  readonly alerts: readonly ShownAlert[];
  readonly agentProblems: readonly Problem[];
  readonly version: string;
  readonly now: number;
}

export function overview({ rows, alerts, agentProblems, version, now }: OverviewData, query: OverviewQuery): Overview {
  const firing = alerts.filter(({ state }) => state === 'firing');
  const firingOf = Map.groupBy(firing, ({ labels }) => labels.account);
  const problems = [...agentProblems, ...rows.flatMap(({ problems }) => problems)].sort(byWeight);
  const known = rows.flatMap(({ row }) => row.deadLetters ?? []);
  const matching = rows.filter(matcherOf(query)).sort(byAttention);
  const pages = Math.max(1, Math.ceil(matching.length / query.per));
  const page = Math.min(query.page, pages);
  const states = new Set([...rows.map(({ row }) => row.state), stateOf(agentProblems, ['fresh'])]);
  return {
    now: iso(now),
    version,
    state: ACCOUNT_STATES.find(state => states.has(state)) ?? 'ok',
    accounts: {
      total: rows.length,
      up: rows.filter(({ up }) => up).length,
      byState: recordOf(ACCOUNT_STATES, state => rows.filter(({ row }) => row.state === state).length),
    },
    deadLetters: known.length === 0 ? null : sum(known),
    problems: problems.slice(0, MAX_LISTED),
    problemsTotal: agentProblems.length + sum(rows.map(({ row }) => row.problems)),
    alerts: firing.slice(0, MAX_LISTED),
    alertsFiring: firing.length,
    matching: matching.length,
    page,
    pages,
    rows: matching.slice((page - 1) * query.per, page * query.per).map(({ row }) => ({
      ...row,
      firing: firingOf.get(row.account)?.length ?? 0,
    })),
  };
}
