import { recordOf } from '../kit/record.ts';
import { createYielder } from '../kit/yielder.ts';
import { DATA_STATES } from '../model/status.ts';
import type { ShownAlert } from '../rules/alerting.ts';
import { checkedFacts, stateOf, type Viewed } from './account.ts';
import type { AccountRow, Overview, OverviewQuery } from './api/overview.ts';
import { ACCOUNT_STATES, type Problem } from './api/parts.ts';
import { queueChange } from './dead-letters.ts';
import { lastHourOf } from './events.ts';
import { waitingOf } from './flow-control.ts';
import { byWeight } from './problems.ts';
import { iso, isoTime, orNull, sum } from './values.ts';

export interface OverviewRow {
  readonly row: Omit<AccountRow, 'firing'>;
  readonly up: boolean;
  readonly problems: readonly Problem[];
}

function makeRow(viewed: Viewed, now: number): OverviewRow {
  const { facts, problems, data, times, state } = checkedFacts(viewed, now);
  const { messages, oldestEntered } = facts.shown.dlq?.now?.selections.get('all') ?? {};
  const lastHour = lastHourOf(facts);
  const worstData = DATA_STATES[Math.max(0, ...data.map(each => DATA_STATES.indexOf(each)))] ?? 'fresh';
  return {
    up: viewed.account.status().up,
    problems,
    row: {
      account: viewed.account.name,
      state,
      data: worstData,
      dataAt: times.length === 0 ? null : isoTime(Math.min(...times)),
      problems: problems.length,
      worst: problems[0] ?? null,
      deadLetters: orNull(messages),
      deadLettersChange: queueChange(facts),
      oldestEntered: isoTime(oldestEntered),
      serviceAheadSeconds: (facts.serviceNow - now) / 1000,
      delivered: lastHour?.deliveredRatio ?? null,
      finished: lastHour && {
        by: lastHour.delivered + lastHour.failed + lastHour.cancelled,
        overSeconds: lastHour.overSeconds,
      },
      waiting: waitingOf(facts),
      inFlight: orNull(facts.shown.events?.now?.gauges?.inFlight),
      labels: { ...viewed.settings.labels },
    },
  };
}

/** Returns a row in place of one that could not be created: a bug in one account must not hide all others. */
function bugRow({ account: { name }, settings: { labels } }: Viewed, now: number): OverviewRow {
  const text = 'This account can’t be shown because of a bug in delivery-watch. The agent’s log has the details.';
  const since = isoTime(now);
  const problem: Problem = {
    account: name,
    kind: 'not_shown',
    severity: 'warning',
    subject: null,
    since,
    text,
    runbook: null,
  };
  return {
    up: false,
    problems: [problem],
    row: {
      account: name,
      state: stateOf([problem], []),
      data: 'not_read',
      dataAt: null,
      deadLetters: null,
      deadLettersChange: null,
      oldestEntered: null,
      serviceAheadSeconds: null,
      delivered: null,
      finished: null,
      waiting: null,
      inFlight: null,
      problems: 1,
      worst: problem,
      labels,
    },
  };
}

/** Returns a function that builds the rows (about 0.5 ms each). It yields to the event loop; concurrent calls share one result. */
export function createOverviewRows(
  accounts: readonly Viewed[],
  now: () => number,
  onBug: (account: string, error: unknown) => void,
): () => Promise<readonly OverviewRow[]> {
  let making: Promise<readonly OverviewRow[]> | undefined;
  const failing = new Map<string, number>();

  function shownRow(viewed: Viewed): OverviewRow {
    const { name } = viewed.account;
    try {
      const row = makeRow(viewed, now());
      failing.delete(name);
      return row;
    } catch (error) {
      if (!failing.has(name)) onBug(name, error);
      const since = failing.get(name) ?? now();
      failing.set(name, since);
      return bugRow(viewed, since);
    }
  }

  async function make(): Promise<readonly OverviewRow[]> {
    const turns = createYielder();
    const rows: OverviewRow[] = [];
    for (const viewed of accounts) {
      rows.push(shownRow(viewed));
      await turns.pass();
    }
    return rows;
  }

  return () => {
    making ??= make().finally(() => {
      making = undefined;
    });
    return making;
  };
}

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
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
}

export function overview({ rows, alerts, agentProblems, version, now }: OverviewData, query: OverviewQuery): Overview {
  const isCritical = ({ labels }: ShownAlert) => Number(labels.severity === 'critical');
  const all = alerts.filter(({ state }) => state === 'firing');
  const firing = all.sort((one, other) => isCritical(other) - isCritical(one));
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
