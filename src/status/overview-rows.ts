import { createYielder } from '../kit/yielder.ts';
import { DATA_STATES } from '../model/status.ts';
import { checkedFacts, stateOf, type Viewed } from './account.ts';
import type { AccountRow } from './api/overview.ts';
import type { Problem } from './api/parts.ts';
import { queueChange } from './dead-letters.ts';
import { lastHourOf } from './events.ts';
import { waitingOf } from './flow-control.ts';
import { isoTime, orNull } from './values.ts';

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
  const problem: Problem = { account: name, kind: 'not_shown', severity: 'warning', subject: null, since, text, runbook: null };
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
