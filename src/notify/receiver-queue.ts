import { createRetry, type Retry } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import { isNotHeld, type Store } from '../store/store.ts';
import type { Group } from './group.ts';
import type { Holds } from './holds.ts';
import type { Notice } from './notice.ts';
import type { Receiver } from './notifiers/receiver.ts';

/** Where a row stands. */
export interface RowKey {
  readonly account: string;
  readonly key: string;
}

/** One request that is to be sent, kept in the store under its key. */
export interface Request extends RowKey {
  /** When it was made, milliseconds since the Unix epoch. */
  readonly at: number;
  readonly notices: readonly Notice[];
  /** Requests with the same order stay in their order: the alert, or the group. */
  readonly order: string;
  readonly group?: Group | undefined;
  /** Rows that it stands for: they have to go before its own does. */
  readonly takes: readonly RowKey[];
  /** Its own row, while the store does not have it; undefined: it does. */
  readonly row?: string | undefined;
  /** It is stored, or done with. */
  onSafe?(): void;
}

interface Item extends Omit<Request, 'takes' | 'row'> {
  takes: readonly RowKey[];
  row: string | undefined;
  /** It is dropped after this, on the monotonic clock; it has been tried at least once. */
  readonly giveUpAt: number;
  readonly retry: Retry;
  /** It was sent or dropped: the row has to go. */
  isDone: boolean;
  /** It is another replica's now: the row stays. */
  isLeft: boolean;
}

export interface QueueDeps {
  readonly notifier: string;
  /** Asked for at each request: it may be another then. */
  readonly receiver: () => Receiver;
  readonly store: Store;
  readonly notifications: Counter<'notifier' | 'outcome'>;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly log: Log;
  /** Gives what has to be written once a request was accepted, in the transaction that removes it. */
  readonly onSent: (request: Request) => readonly Change[];
  /** Asked before each request. What is not this process's to tell waits: the replica that holds it tells it. */
  readonly holds: Holds;
}

/** Requests that wait for one receiver. */
export type ReceiverQueue = ReturnType<typeof createReceiverQueue>;

/** Milliseconds in which a receiver that is down may come back. */
const GIVE_UP_AFTER = 24 * 3_600_000;
/** What waits for one receiver, at most; then the oldest is dropped. As many rows wait for the store to remove them. */
export const MOST_WAITING = 10_000;
const BACKOFF = { first: 1000, longest: 300_000 };

/** Does nothing where it is not there any more. */
function takeOut(queue: Item[], item: Item): void {
  const at = queue.indexOf(item);
  if (at >= 0) queue.splice(at, 1);
}

export function createReceiverQueue(deps: QueueDeps) {
  const { notifier, receiver, store, notifications, clock, random, log, onSent, holds } = deps;
  const queue: Item[] = [];
  /** How many wait to be sent, by order. */
  const underWay = new Map<string, number>();
  let waiting = 0;
  /** Written with the removal of a request. */
  const toWrite = new Map<Item, readonly Change[]>();
  /** Of the request by which the receiver was found to be down. */
  let down: Retry | undefined;
  /** The request that is being sent, or whose row is being removed. */
  let current: { readonly item: Item; readonly ended: Promise<void> } | undefined;

  function count(order: string, more: 1 | -1): void {
    waiting += more;
    const left = (underWay.get(order) ?? 0) + more;
    if (left > 0) underWay.set(order, left);
    else underWay.delete(order);
  }

  function done(item: Item): void {
    item.isDone = true;
    count(item.order, -1);
    item.onSafe?.();
  }

  function drop(account: string, notices: readonly Notice[], why: string): void {
    notifications.inc({ notifier, outcome: 'dropped' });
    const [first] = notices;
    const fields = { account, notifier, alert: first?.labels.alertname, status: first?.status, alerts: notices.length };
    log.error({ ...fields, why }, 'a notification is dropped');
  }

  function dropItem(item: Item, why: string): void {
    done(item);
    drop(item.account, item.notices, why);
  }

  /** Removes the rows that requests stand for: only then may their own go. Rejects with StoreError. */
  async function settle(items: readonly Item[]): Promise<void> {
    const taken = Map.groupBy(
      items.flatMap(({ takes }) => takes),
      ({ account }) => account,
    );
    const removals = [...taken].map(([account, rows]) =>
      store.commit(
        account,
        rows.map(({ key }) => ({ key, value: null })),
      ),
    );
    await Promise.all(removals);
    for (const item of items) item.takes = [];
  }

  /** Before it is sent a request is stored as it is: the next process would make another of it. */
  async function storeNew(): Promise<void> {
    const fresh = queue.filter(({ row, isDone }) => row !== undefined && !isDone);
    for (const [account, items] of Map.groupBy(fresh, ({ account }) => account)) {
      try {
        await store.commit(
          account,
          items.map(({ key, row = '' }) => ({ key, value: row })),
        );
        for (const item of items) {
          item.row = undefined;
          item.onSafe?.();
        }
        await settle(items);
      } catch (error) {
        log.debug({ notifier, error: String(error) }, 'a notification is sent although it is not stored yet');
      }
    }
  }

  async function remove(item: Item): Promise<boolean> {
    const { account, key } = item;
    try {
      await settle([item]);
      await store.commit(account, [{ key, value: null }, ...(toWrite.get(item) ?? [])]);
    } catch (error) {
      // Whatever holds the account now has its row: it is not to be removed from here.
      if (!isNotHeld(error)) {
        log.debug({ account, error: String(error) }, 'a sent notification is not removed from the store yet');
        return false;
      }
    }
    toWrite.delete(item);
    return true;
  }

  /** Sends one. Gives whether the receiver may be sent others now. */
  async function send(item: Item, signal: AbortSignal): Promise<boolean> {
    const answer = await receiver().send(item.notices, signal, item.group);
    const { retry } = item;
    if (answer.kind === 'accepted') {
      toWrite.set(item, onSent(item));
      done(item);
      notifications.inc({ notifier, outcome: 'sent' });
      return true;
    }
    if (answer.kind === 'refused') {
      dropItem(item, answer.why);
      return true;
    }
    if (clock.monotonic() >= item.giveUpAt) {
      dropItem(item, `${answer.why}, for too long`);
      return !answer.isDown;
    }
    retry.failed(answer.retryAfter);
    notifications.inc({ notifier, outcome: 'failed' });
    const fields = { notifier, why: answer.why, attempts: retry.failures };
    if (retry.failures === 1) log.warn(fields, 'a notification could not be sent; retrying');
    else log.debug(fields, 'a notification still cannot be sent');
    return !answer.isDown;
  }

  /** Forgets what is another replica's now, but for a request that is under way. */
  function leave(left: string): void {
    for (const item of queue.filter(each => each.account === left && each !== current?.item)) {
      item.isLeft = true;
      takeOut(queue, item);
      toWrite.delete(item);
      if (!item.isDone) count(item.order, -1);
    }
  }

  const isDue = ({ isDone, retry }: Item) => !isDone && retry.isDue() && (down?.isDue() ?? true);

  async function sendDue(signal: AbortSignal): Promise<void> {
    const held = new Set<string>();
    const others = new Set<string>();
    let isStoreUp = true;
    for (const item of [...queue]) {
      const isNext = isDue(item) && !held.has(item.order) && !others.has(item.account);
      const mayTell = !isNext || holds.has(item.account);
      const isOthers = mayTell !== true && !(await mayTell);
      if (isOthers) others.add(item.account);
      if (isOthers || item.isLeft) continue;
      const { promise: ended, resolve } = Promise.withResolvers<void>();
      current = { item, ended };
      try {
        if (isNext) down = (await send(item, signal)) ? undefined : item.retry;
        if (!item.isDone) held.add(item.order);
        else if (isStoreUp) {
          isStoreUp = await remove(item);
          if (isStoreUp) takeOut(queue, item);
        }
      } finally {
        current = undefined;
        resolve();
      }
    }
  }

  return {
    add(request: Request): void {
      const left = Math.min(GIVE_UP_AFTER, Math.max(0, request.at + GIVE_UP_AFTER - clock.now()));
      const giveUpAt = clock.monotonic() + left;
      const retry = createRetry(BACKOFF, clock, random);
      queue.push({ ...request, row: request.row, giveUpAt, retry, isDone: false, isLeft: false });
      count(request.order, 1);
      const oldest = waiting > MOST_WAITING ? queue.find(({ isDone }) => !isDone) : undefined;
      if (oldest) dropItem(oldest, 'queue full');
    },
    /** Whether one with this order waits to be sent. */
    isUnderWay: (order: string): boolean => underWay.has(order),
    /**
     * Another replica goes on with the account: nothing more of it is sent, and its rows stay. Resolves when the request of it
     * that is under way has ended.
     */
    async letGo(account: string): Promise<void> {
      leave(account);
      if (current?.item.account !== account) return;
      await current.ended;
      leave(account);
    },
    /** Where each request stands. */
    rows: (): readonly RowKey[] => queue.flatMap(({ account, key, takes }) => [...takes, { account, key }]),
    /** Forgets how often it has failed: the receiver is another now. */
    retryNow(): void {
      down = undefined;
      for (const { retry } of queue) retry.succeeded();
    },
    /** Counts and logs what will not be sent. */
    drop,
    /** Stores what is not, sends what is due, in order, and removes rows that are done with. Rejects only when the signal is aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await storeNew();
      await sendDue(signal);
      // The store refuses. A row that stays is sent once more by the next process: at least once.
      const finished = queue.filter(({ isDone }) => isDone);
      for (const item of finished.slice(0, -MOST_WAITING)) {
        takeOut(queue, item);
        toWrite.delete(item);
      }
    },
  };
}
