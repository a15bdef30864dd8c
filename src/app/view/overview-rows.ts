import type { AccountRow } from '../../http/api/overview.ts';
import { DATA_STATES, NOT_SHARED, type Problem } from '../../http/api/parts.ts';
import { hash64 } from '../../kit/hash.ts';
import { createTurns } from '../../kit/turns.ts';
import type { Source } from '../../metrics/family.ts';
import { judgedAccount, stateOf, type Truths, type Viewed } from './account.ts';
import { isoTime } from './values.ts';

/** A row of the overview, and what stands behind it. What is not in the exposition may be so many milliseconds old: see `RENEW`. */
export interface Row {
  /** Without its alerts. */
  readonly row: Omit<AccountRow, 'firing'>;
  readonly up: boolean;
  readonly problems: readonly Problem[];
  /** Firing alerts that are not listed, because another replica holds the account. */
  readonly omittedFiring?: number;
}

/** Numbers of an account of which nothing is known. */
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

/** What sources have said. */
type Stamp = readonly unknown[];

interface Kept extends Row {
  readonly stamp: Stamp;
  readonly at: number;
}

/** Rows by account, for as long as there is that account: those of all generations. They hold on to no sample. */
export type KeptRows = WeakMap<object, Kept>;

/** Milliseconds after which a row is made anew though no sample has changed: changes over the last hour, and ages, move with time. */
const RENEW = 15_000;

/** Stands for a revision, and does not hold on to facts that are no longer shown. */
function stampOf(revision: unknown): unknown {
  if (typeof revision === 'object' && revision !== null) return new WeakRef(revision);
  return typeof revision === 'string' ? hash64(revision) : revision;
}

const isOf = (stamp: unknown, revision: unknown) =>
  stamp instanceof WeakRef
    ? stamp.deref() === revision
    : stamp === (typeof revision === 'string' ? hash64(revision) : revision);

const isCurrent = (stamp: Stamp, sources: readonly Source[]) =>
  stamp.length === sources.length && sources.every((source, index) => isOf(stamp[index], source.revision()));

/** Since when no part of what is shown was read: that of the part read longest ago. */
function currentAt(truths: Truths): number | undefined {
  const times = [truths.deadLetters, truths.events, truths.flowControl].flatMap(({ at }) => at ?? []);
  return times.length === 0 ? undefined : Math.min(...times);
}

/** What the overview shows of an account at `now`, milliseconds since the Unix epoch. */
export function makeRow(viewed: Viewed, now: number): Row {
  const { view, truths, problems, data, state } = judgedAccount(viewed, now, 'brief');
  const { account, up, labels, deadLetters, events, flowControl } = view;
  const { lastHour } = events;
  const worstData = DATA_STATES[Math.max(0, ...data.map(each => DATA_STATES.indexOf(each)))] ?? 'fresh';
  return {
    up,
    problems,
    row: {
      account,
      state,
      data: worstData,
      dataAt: isoTime(currentAt(truths)),
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

/** One bug must not cost the overview of all other accounts. */
function bugRow({ account: { name }, settings: { labels } }: Viewed, now: number): Row {
  const problem: Problem = {
    account: name,
    kind: 'not_shown',
    severity: 'warning',
    subject: null,
    since: isoTime(now),
    text: 'This account can’t be shown: that is a bug in delivery-watch. The log of the agent says where.',
    runbook: null,
  };
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

/** Tells of an account that can't be shown. */
type OnBug = (account: string, error: unknown) => void;

/** Rows of these accounts as they are now. Other work gets its turn meanwhile; who asks while they are made gets the same. */
export function createRows(
  accounts: readonly Viewed[],
  kept: KeptRows,
  now: () => number,
  onBug: OnBug,
): () => Promise<readonly Row[]> {
  let making: Promise<readonly Row[]> | undefined;
  /** Accounts that could not be shown the last time, and since when. */
  const failing = new Map<string, number>();

  function rowOf(viewed: Viewed): Row {
    const [at, known] = [now(), kept.get(viewed.account)];
    if (known && Math.abs(at - known.at) < RENEW && isCurrent(known.stamp, viewed.sources)) return known;
    // Before the samples: what changes in between is seen the next time.
    const stamp = viewed.sources.map(source => stampOf(source.revision()));
    const made = { ...makeRow(viewed, at), stamp, at };
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
      const pause = turns.pass();
      if (pause) await pause;
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
