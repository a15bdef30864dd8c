/** A request of a replica to the service for an account. Times are in milliseconds of one shared monotonic clock. */
export interface Poll {
  readonly replica: string;
  readonly account: string;
  readonly method: string;
  readonly path: string;
  readonly start: number;
  readonly end: number;
}

/** A period in which a replica without database access cannot determine the holders and keeps polling. */
export interface Isolation {
  readonly replica: string;
  readonly from: number;
  readonly to: number;
}

/** Whether a replica acted during its isolation. */
export const isIsolated = (
  { replica, start }: { readonly replica: string; readonly start: number },
  isolations: readonly Isolation[],
) => isolations.some(each => each.replica === replica && start >= each.from && start <= each.to);

const inOrder = (polls: readonly Poll[]) => polls.toSorted((one, other) => one.start - other.start);

/** Consecutive requests of one replica for one account. */
interface Tenure {
  readonly replica: string;
  readonly from: number;
  /** End of the replica's last request. */
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
  /** Number of changes of the polling replica, summed over all accounts. */
  readonly handOvers: number;
  /** Violations. */
  readonly faults: readonly string[];
}

/**
 * Checks that replicas never poll an account concurrently: no request starts before the previous replica's last one has ended.
 * An account's polling replica must not change more often than the account was acquired (`epochs`). Requests of isolated
 * replicas are ignored.
 */
export function checkOneAtATime(
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
      faults.push(`${account}: gained ${gained} times, polled alternately by ${tenures.map(each => each.replica)}`);
  }
  return { handOvers, faults };
}

export interface Gap {
  readonly account: string;
  readonly from: number;
  readonly to: number;
}

/** Returns the gaps between requests for each account from `from` to `to`, longest first. */
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

/** Returns ids with more than one DELETE, and their senders. */
export function checkDeletes(polls: readonly Poll[]): string[] {
  const deletes = polls.filter(({ method }) => method === 'DELETE');
  return [...Map.groupBy(deletes, ({ account, path }) => `${account} ${path}`)]
    .filter(([, sent]) => sent.length > 1)
    .map(([id, sent]) => `${id} by ${sent.map(({ replica }) => replica)}`);
}

/** A received notification of an alert. */
export interface ReceivedNotification {
  readonly account: string;
  readonly alert: string;
  readonly status: string;
  readonly startsAt: string;
  /** Idempotency key of the notification. */
  readonly key: string;
  /** The sending replica and the time. */
  readonly replica: string;
  readonly start: number;
}

/** Maximum time between sending and marking a notification (ms). An interruption within this time may leave it unmarked. */
const MARKING = 10_000;

/**
 * Returns alert states that were sent with several keys, or with one key by several replicas. A replica that was
 * interrupted (killed, stopped, or without a database) may have sent a notification without marking it; another replica
 * then repeats it with the same key.
 */
export function checkNotifications(
  received: readonly ReceivedNotification[],
  interruptions: readonly Isolation[],
): string[] {
  const isKnown = ({ replica, start }: ReceivedNotification) =>
    !interruptions.some(each => each.replica === replica && start >= each.from - MARKING && start <= each.to);
  const states = Map.groupBy(received, each => `${each.alert} ${each.account} ${each.status} ${each.startsAt}`);
  return [...states]
    .filter(([, all]) => new Set(all.map(({ key }) => key)).size > 1 || all.filter(isKnown).length > 1)
    .map(([state, all]) => `${state} by ${all.map(({ replica, key }) => `${replica} (${key})`).join(', ')}`);
}

/** Watches account counters across replicas. */
export interface CounterWatch {
  /**
   * Adds the values of one replica by series, including the account label. `known`: result of `mark` before the scrape.
   */
  saw(replica: string, values: ReadonlyMap<string, number>, known: ReadonlyMap<string, number>): void;
  /** Returns the highest value of each series so far. */
  mark(): ReadonlyMap<string, number>;
  /** Reports that a process of this replica has ended. */
  ended(replica: string): void;
  /** Number of compared values. `faults`: decreases. */
  readonly seen: number;
  readonly faults: readonly string[];
}

/**
 * Checks that no series decreases, neither on a replica nor from one replica to the next. A replica that exposes a series again
 * must not report a value below the highest one before its scrape.
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
