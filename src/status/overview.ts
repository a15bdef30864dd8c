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

type Order = (a: OverviewRow, b: OverviewRow) => number;

const by =
  (value: (row: OverviewRow['row']) => number | string | null | undefined, largestFirst: boolean): Order =>
  ({ row: a }, { row: b }) => {
    const [one, other] = [value(a) ?? null, value(b) ?? null];
    if (one === other) return 0;
    if (one === null || other === null) return one === null ? 1 : -1;
    return one < other === largestFirst ? 1 : -1;
  };

const byName = by(({ account }) => account, false);
const byState = by(({ state }) => ACCOUNT_STATES.indexOf(state), false);

/** Sorts rows by state, worst first, then by their worst problem. */
function byAttention(a: OverviewRow, b: OverviewRow): number {
  const [one, other] = [a.row.worst, b.row.worst];
  return byState(a, b) || (one && other ? byWeight(one, other) : Number(one === null) - Number(other === null));
}

const ORDERS: Readonly<Record<OverviewQuery['sort'], Order>> = {
  attention: byAttention,
  account: byName,
  deadLetters: by(({ deadLetters }) => deadLetters, true),
  growth: by(({ deadLettersChange }) => deadLettersChange?.by, true),
  oldest: by(({ oldestEntered }) => oldestEntered, false),
  delivered: by(({ delivered }) => delivered, false),
  waiting: by(({ waiting }) => waiting, true),
};

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
  const order = ORDERS[query.sort];
  const matching = rows.filter(matcherOf(query)).sort((a, b) => order(a, b) || byName(a, b));
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
