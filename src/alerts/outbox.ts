import { createRetry, type Retry } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import type { Store } from '../store/store.ts';
import { fingerprintOf, type Notice } from './notice.ts';
import type { Receiver } from './notifiers/receiver.ts';

/** Notices that are about to be put into the outbox. */
export interface Posting {
  /** Rows to commit, in the transaction that makes them true; later, those of them that were not sent yet. */
  changes(): readonly Change[];
  /** Queues them. To be called once they are committed, or where they shall be sent in any case. */
  send(): void;
}

/** Notices that are sent once, kept in the store until they were: at least once, in order for each alert. */
export interface Outbox {
  /** Reads what an earlier process left of an account; to be done before its first `post`. Rejects with StoreError. */
  open(account: string): Promise<void>;
  /** Of an account, to every receiver that `isFor` says. */
  post(account: string, notices: readonly Notice[], isFor: (receiver: Receiver) => boolean): Posting;
  /** Bodies of loops, one a receiver; none rejects. */
  readonly senders: readonly ((signal: AbortSignal) => Promise<void>)[];
}

export interface OutboxDeps {
  readonly store: Store;
  readonly receivers: readonly Receiver[];
  readonly notifications: Counter<'notifier' | 'outcome'>;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly log: Log;
}

/** One row. */
interface Row {
  readonly notifier: string;
  readonly member: number;
  /** When it was put there, milliseconds since the Unix epoch. */
  readonly at: number;
  readonly notice: Notice;
}

interface Item extends Row {
  readonly account: string;
  readonly key: string;
  readonly fingerprint: string;
  /** It is dropped after this, on the monotonic clock; it has been tried at least once. */
  readonly giveUpAt: number;
  readonly retry: Retry;
  /** It was sent or dropped: the row has to go. */
  isDone: boolean;
}

const PREFIX = 'alerts/outbox/';
/** Milliseconds in which a receiver that is down may come back. */
const GIVE_UP_AFTER = 24 * 3_600_000;
/** Notices that wait for one receiver, at most; then the oldest are dropped. As many rows wait for the store to remove them. */
const MOST_WAITING = 10_000;
const BACKOFF = { first: 1000, longest: 300_000 };

/** Does nothing where it is not there any more. */
function takeOut(queue: Item[], item: Item): void {
  const at = queue.indexOf(item);
  if (at >= 0) queue.splice(at, 1);
}

const numberOf = (key: string) => Number(key.slice(PREFIX.length));

export function createOutbox(deps: OutboxDeps): Outbox {
  const { store, receivers, notifications, clock, random, log } = deps;
  const queues = new Map<Receiver, Item[]>(receivers.map(receiver => [receiver, []]));
  let last = 0;

  function toItem(account: string, key: string, row: Row): Item {
    const left = Math.min(GIVE_UP_AFTER, Math.max(0, row.at + GIVE_UP_AFTER - clock.now()));
    const fingerprint = fingerprintOf(row.notice.labels);
    const retry = createRetry(BACKOFF, clock, random);
    return { ...row, account, key, fingerprint, giveUpAt: clock.monotonic() + left, retry, isDone: false };
  }

  function drop(item: Item, why: string): void {
    const { account, notifier, notice } = item;
    item.isDone = true;
    notifications.inc({ notifier, outcome: 'dropped' });
    const fields = { account, notifier, alert: notice.labels.alertname, status: notice.status, why };
    log.error(fields, 'a notification is dropped');
  }

  function enqueue(queue: Item[], item: Item): void {
    queue.push(item);
    const waiting = queue.filter(({ isDone }) => !isDone);
    if (waiting.length > MOST_WAITING) drop(waiting[0] as Item, 'queue full');
  }

  async function remove({ account, key }: Pick<Item, 'account' | 'key'>): Promise<boolean> {
    try {
      await store.commit(account, [{ key, value: null }]);
      return true;
    } catch (error) {
      log.debug({ account, error: String(error) }, 'a sent notification is not removed from the store yet');
      return false;
    }
  }

  /** Sends one. Gives whether the receiver may be sent others now. */
  async function send(item: Item, receiver: Receiver, signal: AbortSignal): Promise<boolean> {
    const answer = await receiver.send([item.notice], signal);
    const { notifier, retry } = item;
    if (answer.kind === 'accepted') {
      item.isDone = true;
      notifications.inc({ notifier, outcome: 'sent' });
      return true;
    }
    if (answer.kind === 'refused') {
      drop(item, answer.why);
      return true;
    }
    if (clock.monotonic() >= item.giveUpAt) {
      drop(item, `${answer.why}, for too long`);
      return !answer.isDown;
    }
    retry.failed();
    notifications.inc({ notifier, outcome: 'failed' });
    const fields = { notifier, why: answer.why, attempts: retry.failures };
    if (retry.failures === 1) log.warn(fields, 'a notification could not be sent; retrying');
    else log.debug(fields, 'a notification still cannot be sent');
    return !answer.isDown;
  }

  /** Sends what waits for one receiver, the notices of each alert in their order, and removes rows that are done with. */
  function createSender(receiver: Receiver, queue: Item[]) {
    /** Of the notice by which the receiver was found to be down. */
    let down: Retry | undefined;
    return async (signal: AbortSignal) => {
      const held = new Set<string>();
      let isStoreUp = true;
      try {
        for (const item of [...queue]) {
          const isDue = item.retry.isDue() && (down?.isDue() ?? true) && !held.has(item.fingerprint);
          if (!item.isDone && isDue) down = (await send(item, receiver, signal)) ? undefined : item.retry;
          if (!item.isDone) held.add(item.fingerprint);
          else if (isStoreUp) {
            isStoreUp = await remove(item);
            if (isStoreUp) takeOut(queue, item);
          }
        }
        // The store refuses. A row that stays is sent once more by the next process: at least once.
        const done = queue.filter(({ isDone }) => isDone);
        for (const item of done.slice(0, -MOST_WAITING)) takeOut(queue, item);
      } catch (error) {
        if (!signal.aborted) log.error({ notifier: receiver.notifier, error: String(error) }, 'bug');
      }
    };
  }

  return {
    async open(account) {
      for (const [key, value] of await store.scan(account, PREFIX)) {
        last = Math.max(last, numberOf(key));
        const item = toItem(account, key, JSON.parse(value) as Row);
        const { notifier, member } = item;
        const found = [...queues].find(([each]) => each.notifier === notifier && each.member === member);
        if (!found) {
          log.warn({ account, notifier }, 'a notification waits for a notifier that is no longer configured');
          await remove(item);
          continue;
        }
        found[1].push(item);
      }
      for (const queue of queues.values()) queue.sort((a, b) => numberOf(a.key) - numberOf(b.key));
    },
    post(account, notices, isFor) {
      const posted = notices.flatMap(notice =>
        [...queues].flatMap(([receiver, queue]) => {
          if (!isFor(receiver)) return [];
          last += 1;
          const { notifier, member } = receiver;
          const row: Row = { notifier, member, at: clock.now(), notice };
          const item = toItem(account, `${PREFIX}${String(last).padStart(12, '0')}`, row);
          return { queue, item, change: { key: item.key, value: JSON.stringify(row) } };
        }),
      );
      return {
        changes: () => posted.filter(({ item }) => !item.isDone).map(({ change }) => change),
        send() {
          for (const { queue, item } of posted) enqueue(queue, item);
        },
      };
    },
    senders: [...queues].map(([receiver, queue]) => createSender(receiver, queue)),
  };
}
