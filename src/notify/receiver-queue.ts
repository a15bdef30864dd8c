import { createRetry, type Retry } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import { isNotHeld, type Store } from '../store/store.ts';
import type { Group } from './group.ts';
import type { Notice } from './notice.ts';
import type { Receiver } from './notifiers/receiver.ts';

export interface RowKey {
  readonly account: string;
  readonly key: string;
}

/** A request, stored under its key until it is sent. */
export interface OutboxEntry extends RowKey {
  /** Creation time (ms since the Unix epoch). */
  readonly at: number;
  readonly notices: readonly Notice[];
  /** Alert or group: requests with the same value are sent sequentially. */
  readonly order: string;
  readonly group?: Group | undefined;
  /** Rows that the request replaces. They must be deleted before its own row. */
  readonly takes: readonly RowKey[];
  /** Content of the request's own row; undefined once the row is stored. */
  readonly row?: string | undefined;
  /** Called when the request is stored, and when it is sent or dropped. */
  onSafe?(): void;
}

interface Item extends Omit<OutboxEntry, 'takes' | 'row'> {
  takes: readonly RowKey[];
  row: string | undefined;
  /** Changes to commit with the removal of its row. */
  changes: readonly Change[];
  /** Monotonic time after which the request is dropped if at least one attempt was made. */
  readonly dropAt: number;
  readonly retry: Retry;
  /** Whether it was sent or dropped, so its row must be deleted. */
  isDone: boolean;
}

export interface QueueDeps {
  readonly notifier: string;
  /** Read for each request, because the receiver may be replaced. */
  readonly receiver: () => Receiver;
  readonly store: Store;
  readonly notifications: Counter<'notifier' | 'outcome'>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
  /** Returns changes to commit with the removal of an accepted or rejected request's row. */
  readonly onSent: (request: OutboxEntry, isRefused: boolean) => readonly Change[];
  /** Whether this process may send. Checked before each request; waits only if another process may lead. */
  readonly mayNotify: MayNotify;
}

export type MayNotify = () => true | Promise<boolean>;

export type ReceiverQueue = ReturnType<typeof createReceiverQueue>;

/** Time after which an undelivered request is dropped (ms). */
const DROP_AFTER = 24 * 3_600_000;
/** Maximum number of waiting requests, and of rows waiting for deletion. */
export const MAX_WAITING = 10_000;
const BACKOFF = { first: 1000, longest: 300_000 };

/**
 * Returns whether a rejected request is retried, because the rejection may be due to a wrong key. Groups are not retried,
 * because they are repeated anyway; other notices are dropped.
 */
const isRetried = ({ group, notices }: OutboxEntry) =>
  group === undefined && notices.every(({ status, lasts }) => status === 'firing' && lasts === undefined);

/** Deletes rows with one commit per account. Rejects with StoreError. */
export async function deleteRows(store: Pick<Store, 'commit'>, rows: readonly RowKey[]): Promise<void> {
  const removals = [...Map.groupBy(rows, ({ account }) => account)].map(([account, keys]) => {
    const changes = keys.map(({ key }) => ({ key, value: null }));
    return store.commit(account, changes);
  });
  await Promise.all(removals);
}

function removeFrom(queue: Item[], item: Item): void {
  const at = queue.indexOf(item);
  if (at >= 0) queue.splice(at, 1);
}

export function createReceiverQueue(deps: QueueDeps) {
  const { notifier, receiver, store, notifications, clock, random, log, onSent, mayNotify } = deps;
  const queue: Item[] = [];
  const queued = new Map<string, number>();
  let waiting = 0;
  /** Retry state of the request that found the receiver down. */
  let down: Retry | undefined;

  function count(order: string, more: 1 | -1): void {
    waiting += more;
    const left = (queued.get(order) ?? 0) + more;
    if (left > 0) queued.set(order, left);
    else queued.delete(order);
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

  /** Deletes the rows that requests replace. Call before deleting the rows of the requests. Rejects with StoreError. */
  async function settle(items: readonly Item[]): Promise<void> {
    const taken = items.flatMap(({ takes }) => takes);
    await deleteRows(store, taken);
    for (const item of items) item.takes = [];
  }

  /** Stores new requests before they are sent: the next process would otherwise build different ones. */
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
    const { account, key, changes } = item;
    try {
      await settle([item]);
      await store.commit(account, [{ key, value: null }, ...changes]);
    } catch (error) {
      // After a takeover, the row belongs to the next leader.
      if (!isNotHeld(error)) {
        log.debug({ account, error: String(error) }, 'a sent notification is not removed from the store yet');
        return false;
      }
    }
    return true;
  }

  /** Sends one request. Returns whether the receiver can accept further requests now. */
  async function send(item: Item, signal: AbortSignal): Promise<boolean> {
    const result = await receiver().send(item.notices, signal, item.group);
    const { retry } = item;
    if (result.kind === 'accepted') {
      item.changes = onSent(item, false);
      done(item);
      notifications.inc({ notifier, outcome: 'sent' });
      return true;
    }
    const isRefused = result.kind === 'refused';
    // A later notice of the same alert supersedes a rejected one.
    if (isRefused && !(isRetried(item) && queued.get(item.order) === 1)) {
      item.changes = onSent(item, true);
      dropItem(item, result.why);
      return true;
    }
    const isUp = isRefused || !result.isDown;
    if (clock.monotonic() >= item.dropAt) {
      dropItem(item, `${result.why}, for too long`);
      return isUp;
    }
    retry.failed(isRefused ? undefined : result.retryAfter);
    notifications.inc({ notifier, outcome: 'failed' });
    const fields = { notifier, why: result.why, attempts: retry.failures };
    if (retry.failures === 1) log.warn(fields, 'a notification could not be sent; retrying');
    else log.debug(fields, 'a notification still cannot be sent');
    return isUp;
  }

  const isDue = ({ isDone, retry }: Item) => !isDone && retry.isDue() && (down?.isDue() ?? true);

  async function sendDue(signal: AbortSignal): Promise<void> {
    const held = new Set<string>();
    let isStoreUp = true;
    for (const item of [...queue]) {
      if (isDue(item) && !held.has(item.order) && (await mayNotify()))
        down = (await send(item, signal)) ? undefined : item.retry;
      if (!item.isDone) held.add(item.order);
      else if (isStoreUp) {
        isStoreUp = await remove(item);
        if (isStoreUp) removeFrom(queue, item);
      }
    }
  }

  return {
    add(request: OutboxEntry): void {
      const left = Math.min(DROP_AFTER, Math.max(0, request.at + DROP_AFTER - clock.now()));
      const dropAt = clock.monotonic() + left;
      const retry = createRetry(BACKOFF, clock, random);
      queue.push({ ...request, row: request.row, changes: [], dropAt, retry, isDone: false });
      count(request.order, 1);
      const oldest = waiting > MAX_WAITING ? queue.find(({ isDone }) => !isDone) : undefined;
      if (oldest) dropItem(oldest, 'queue full');
    },
    /** Whether a request of this alert or group waits to be sent. */
    isQueued: (order: string): boolean => queued.has(order),
    rows: (): readonly RowKey[] => queue.flatMap(({ account, key, takes }) => [...takes, { account, key }]),
    retryNow(): void {
      down = undefined;
      for (const { retry } of queue) retry.succeeded();
    },
    drop,
    /** Stores new requests, sends due ones and deletes rows of sent ones. Rejects only if the signal is aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await storeNew();
      await sendDue(signal);
      // Bounds the queue if the store keeps rejecting deletes. The next process sends the remaining rows again.
      const finished = queue.filter(({ isDone }) => isDone);
      for (const item of finished.slice(0, -MAX_WAITING)) removeFrom(queue, item);
    },
  };
}
