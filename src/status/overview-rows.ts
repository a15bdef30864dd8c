import { hash64 } from '../kit/hash.ts';
import { createTurns } from '../kit/turns.ts';
import type { Source } from '../metrics/family.ts';
import { judgedAccount, stateOf, type Viewed } from './account.ts';
import type { AccountRow } from './api/overview.ts';
import { DATA_STATES, NOT_SHARED, type Problem } from './api/parts.ts';
import { isoTime } from './values.ts';

/** A row of the overview with its problems. Values that are not in the exposition may be older: see `RENEW`. */
export interface Row {
  readonly row: Omit<AccountRow, 'firing'>;
  readonly up: boolean;
  readonly problems: readonly Problem[];
  /** Firing alerts that are not listed, because another replica holds the account. */
  readonly omittedFiring?: number;
}

export const NO_NUMBERS = {
  dataAt: null,
  deadLetters: null,
  deadLettersChange: null,
  oldestEntered: null,
  delivered: null,
  finished: null,
  waiting: null,
  inFlight: null,
} as const;

interface Kept extends Row {
  /** Stamps of the revisions of its sources. */
  readonly stamps: readonly unknown[];
  readonly at: number;
}

/** Rows by account object. They do not retain samples. */
export type KeptRows = WeakMap<object, Kept>;

/** Maximum age of a row without changed samples (ms): ages, and changes over the last hour, depend on the time. */
const RENEW = 15_000;

/** A stamp of a revision that does not retain replaced facts. */
function stampOf(revision: unknown): unknown {
  if (typeof revision === 'object' && revision !== null) return new WeakRef(revision);
  return typeof revision === 'string' ? hash64(revision) : revision;
}

const isOf = (stamp: unknown, revision: unknown) =>
  stamp instanceof WeakRef ? stamp.deref() === revision : stamp === stampOf(revision);

const isCurrent = (stamps: readonly unknown[], sources: readonly Source[]) =>
  stamps.length === sources.length && sources.every((source, index) => isOf(stamps[index], source.revision()));

/** Builds the row of an account at `now`, milliseconds since the Unix epoch. */
export function makeRow(viewed: Viewed, now: number): Row {
  const { view, truths, problems, data, state } = judgedAccount(viewed, now, 'brief');
  const { account, up, labels, deadLetters, events, flowControl } = view;
  const { lastHour } = events;
  const worstData = DATA_STATES[Math.max(0, ...data.map(each => DATA_STATES.indexOf(each)))] ?? 'fresh';
  const times = Object.values(truths).flatMap(({ at }) => at ?? []);
  return {
    up,
    problems,
    row: {
      account,
      state,
      data: worstData,
      dataAt: times.length === 0 ? null : isoTime(Math.min(...times)),
      problems: problems.length,
      worst: problems[0] ?? null,
      deadLetters: deadLetters.messages,
      deadLettersChange: deadLetters.change,
      oldestEntered: deadLetters.oldestEntered,
      delivered: lastHour?.deliveredRatio ?? null,
      finished: lastHour && {
        by: lastHour.delivered + lastHour.failed + lastHour.cancelled,
        overSeconds: lastHour.overSeconds,
      },
      waiting: flowControl.waiting,
      inFlight: events.inFlight,
      labels,
      ...NOT_SHARED,
    },
  };
}

export function notShown(account: string, since: string | null, text: string): Problem {
  return { account, kind: 'not_shown', severity: 'warning', subject: null, since, text, runbook: null };
}

/** A bug in one account must not hide all others. */
function bugRow({ account: { name }, settings: { labels } }: Viewed, now: number): Row {
  const text = 'This account can’t be shown: that is a bug in delivery-watch. The log of the agent says where.';
  const problem = notShown(name, isoTime(now), text);
  return {
    up: false,
    problems: [problem],
    row: {
      account: name,
      state: stateOf([problem], []),
      data: 'not_read',
      ...NO_NUMBERS,
      problems: 1,
      worst: problem,
      labels,
      ...NOT_SHARED,
    },
  };
}

/** Returns the current rows. Yields to other work; concurrent calls share one result. */
export function createRows(
  accounts: readonly Viewed[],
  kept: KeptRows,
  now: () => number,
  onBug: (account: string, error: unknown) => void,
): () => Promise<readonly Row[]> {
  let making: Promise<readonly Row[]> | undefined;
  const failing = new Map<string, number>();

  function rowOf(viewed: Viewed): Row {
    const [at, known] = [now(), kept.get(viewed.account)];
    if (known && Math.abs(at - known.at) < RENEW && isCurrent(known.stamps, viewed.sources)) return known;
    // Before the samples: a change in between is detected next time.
    const stamps = viewed.sources.map(source => stampOf(source.revision()));
    const made = { ...makeRow(viewed, at), stamps, at };
    kept.set(viewed.account, made);
    return made;
  }

  function shownRow(viewed: Viewed): Row {
    const { name } = viewed.account;
    try {
      const row = rowOf(viewed);
      failing.delete(name);
      return row;
    } catch (error) {
      if (!failing.has(name)) onBug(name, error);
      const since = failing.get(name) ?? now();
      failing.set(name, since);
      return bugRow(viewed, since);
    }
  }

  async function make(): Promise<readonly Row[]> {
    const turns = createTurns();
    const rows: Row[] = [];
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
