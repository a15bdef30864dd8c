/** A request of a replica to the service for an account. Times: milliseconds of one monotonic clock. */
export interface Poll {
  readonly replica: string;
  readonly account: string;
  readonly method: string;
  readonly path: string;
  readonly start: number;
  readonly end: number;
}

/** A time in which a replica, cut off from the database by itself, can't know who holds what, and so goes on reading. */
export interface Isolation {
  readonly replica: string;
  readonly from: number;
  readonly to: number;
}

/** Whether a replica did something in its isolation. */
export const isIsolated = (
  { replica, start }: { readonly replica: string; readonly start: number },
  isolations: readonly Isolation[],
) => isolations.some(each => each.replica === replica && start >= each.from && start <= each.to);

const inOrder = (polls: readonly Poll[]) => polls.toSorted((one, other) => one.start - other.start);

/** An unbroken run of requests of one replica for one account. */
interface Tenure {
  readonly replica: string;
  readonly from: number;
  /** The end of the last of its requests. */
  to: number;
}

function tenuresOf(polls: readonly Poll[]): Tenure[] {
  const tenures: Tenure[] = [];
  for (const { replica, start, end } of inOrder(polls)) {
    const last = tenures.at(-1);
    if (last?.replica === replica) last.to = Math.max(last.to, end);
    else tenures.push({ replica, from: start, to: end });
  }
  return tenures;
}

export interface OneAtATime {
  /** Changes of the replica that asked, of all accounts. */
  readonly handOvers: number;
  /** What was otherwise, in words. */
  readonly faults: readonly string[];
}

/**
 * Each account is polled by one replica at a time: no request begins before the last one of the replica before has ended,
 * and the replica changes no more often than the account was gained (`epochs`, by account). So two replicas can't take turns.
 * Requests that a replica sends in its isolation are left out.
 */
export function judgeOneAtATime(
  polls: readonly Poll[],
  epochs: ReadonlyMap<string, number>,
  isolations: readonly Isolation[],
): OneAtATime {
  const faults: string[] = [];
  let handOvers = 0;
  for (const [account, own] of Map.groupBy(polls, poll => poll.account)) {
    const tenures = tenuresOf(own.filter(poll => !isIsolated(poll, isolations)));
    handOvers += tenures.length - 1;
    for (const [index, tenure] of tenures.entries()) {
      const last = tenures[index - 1];
      if (last && tenure.from < last.to) {
        const by = (last.to - tenure.from).toFixed(0);
        faults.push(`${account}: ${tenure.replica} asked ${by} ms before the last request of ${last.replica} ended`);
      }
    }
    const gained = epochs.get(account) ?? 0;
    if (tenures.length > gained)
      faults.push(`${account}: gained ${gained} times, polled in turns by ${tenures.map(each => each.replica)}`);
  }
  return { handOvers, faults };
}

export interface Gap {
  readonly account: string;
  readonly from: number;
  readonly to: number;
}

/** For each account the times between two requests, from `from` to `to`, longest first. */
export function gapsOf(polls: readonly Poll[], accounts: readonly string[], from: number, to: number): Gap[] {
  const byAccount = Map.groupBy(
    polls.filter(({ start }) => start >= from && start <= to),
    poll => poll.account,
  );
  return accounts
    .flatMap(account => {
      const starts = [from, ...inOrder(byAccount.get(account) ?? []).map(({ start }) => start), to];
      return starts.slice(1).map((start, index) => ({ account, from: starts[index] ?? from, to: start }));
    })
    .sort((one, other) => other.to - other.from - (one.to - one.from));
}

/** Ids of which a DELETE was sent more than once, with who sent it. */
export function judgeDeletes(polls: readonly Poll[]): string[] {
  const deletes = polls.filter(({ method }) => method === 'DELETE');
  return [...Map.groupBy(deletes, ({ account, path }) => `${account} ${path}`)]
    .filter(([, sent]) => sent.length > 1)
    .map(([id, sent]) => `${id} by ${sent.map(({ replica }) => replica)}`);
}

/** What a receiver took about an alert. */
export interface Told {
  readonly account: string;
  readonly alert: string;
  readonly status: string;
  readonly startsAt: string;
  /** The idempotency key of the notification. */
  readonly key: string;
  /** The replica that told it, and when. */
  readonly replica: string;
  readonly start: number;
}

/** What was told so shortly before a replica was interrupted may not have been marked as told yet, milliseconds. */
const MARKING = 10_000;

/**
 * Alerts of which one state was told under more than one key, or under one key by more replicas than one. Who was interrupted
 * (killed, stopped, or away from the database) as it told may not have come to say so: another tells it again, under its key.
 */
export function judgeTold(told: readonly Told[], interruptions: readonly Isolation[]): string[] {
  const isKnown = ({ replica, start }: Told) =>
    !interruptions.some(each => each.replica === replica && start >= each.from - MARKING && start <= each.to);
  const states = Map.groupBy(told, each => `${each.alert} ${each.account} ${each.status} ${each.startsAt}`);
  return [...states]
    .filter(([, all]) => new Set(all.map(({ key }) => key)).size > 1 || all.filter(isKnown).length > 1)
    .map(([state, all]) => `${state} by ${all.map(({ replica, key }) => `${replica} (${key})`).join(', ')}`);
}

/** Watches counters of accounts, whichever replica shows them. */
export interface CounterWatch {
  /** What one replica shows now: value by series, an account's label among them. `known`: as `mark` gave it when it was asked. */
  saw(replica: string, values: ReadonlyMap<string, number>, known: ReadonlyMap<string, number>): void;
  /** The highest value of each series so far. */
  mark(): ReadonlyMap<string, number>;
  /** A process of this replica has ended. */
  ended(replica: string): void;
  /** Values that were compared, and what went back. */
  readonly seen: number;
  readonly faults: readonly string[];
}

/**
 * No series may go back: neither while a replica shows it, nor from one replica to the next. A replica that shows it anew must
 * show what any had shown when it was asked, or more.
 */
export function watchCounters(): CounterWatch {
  const highest = new Map<string, number>();
  const shown = new Map<string, ReadonlyMap<string, number>>();
  const faults: string[] = [];
  let seen = 0;
  return {
    saw(replica, values, known) {
      const last = shown.get(replica);
      for (const [series, value] of values) {
        seen += 1;
        const floor = last?.get(series) ?? known.get(series) ?? 0;
        if (value < floor) faults.push(`${series}: ${replica} shows ${value} after ${floor}`);
        if (value > (highest.get(series) ?? -1)) highest.set(series, value);
      }
      shown.set(replica, values);
    },
    mark: () => new Map(highest),
    ended: replica => void shown.delete(replica),
    get seen() {
      return seen;
    },
    faults,
  };
}
