import { backoffDelay } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { Change, Store } from '../store/store.ts';
import { fingerprintOf, type Notice } from './notice.ts';
import type { Receiver } from './notifiers/index.ts';

/** Notices that are about to be put into the outbox. */
export interface Posting {
  /** Rows to commit, in the transaction that makes them true; later, those of them that were not told of yet. */
  changes(): readonly Change[];
  /** Lets them be told of. To be called once they are committed, or where they shall be told of in any case. */
  send(): void;
}

/** What is to be told once, kept in the store until it was: at least once, in order for each alert. */
export interface Outbox {
  /** Of an account, to every receiver that `isFor` says. */
  post(account: string, notices: readonly Notice[], isFor: (receiver: Receiver) => boolean): Posting;
  /** Loops that tell, one a receiver; none throws. */
  readonly lanes: readonly ((signal: AbortSignal) => Promise<void>)[];
}

export interface OutboxDeps {
  readonly store: Store;
  readonly accounts: readonly string[];
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
  /** It is told of no more after this, on the monotonic clock; it has been tried at least once. */
  readonly giveUpAt: number;
  /** There is nothing more to tell, and the row has to go. */
  isDone: boolean;
  attempts: number;
  notBefore: number;
}

const PREFIX = 'alerts/outbox/';
/** Milliseconds in which a receiver that is down may come back. */
const GIVE_UP_AFTER = 24 * 3_600_000;
/** Notices that wait for one receiver, at most; then the oldest go. */
const MOST_WAITING = 10_000;
const BACKOFF = { first: 1000, longest: 300_000 };

const numberOf = (key: string) => Number(key.slice(PREFIX.length));

/** Reads what was left to be told. Rejects with StoreError. */
export async function openOutbox(deps: OutboxDeps): Promise<Outbox> {
  const { store, accounts, receivers, notifications, clock, random, log } = deps;
  const queues = new Map<Receiver, Item[]>(receivers.map(receiver => [receiver, []]));
  let last = 0;

  const receiverOf = ({ notifier, member }: Row) =>
    receivers.find(each => each.notifier === notifier && each.member === member);

  function toItem(account: string, key: string, row: Row): Item {
    const left = Math.min(GIVE_UP_AFTER, Math.max(0, row.at + GIVE_UP_AFTER - clock.now()));
    const fingerprint = fingerprintOf(row.notice.labels);
    const giveUpAt = clock.monotonic() + left;
    return { ...row, account, key, fingerprint, giveUpAt, isDone: false, attempts: 0, notBefore: 0 };
  }

  function drop(item: Item, why: string): void {
    const { account, notifier, notice } = item;
    item.isDone = true;
    notifications.inc({ notifier, outcome: 'dropped' });
    log.error(
      { account, notifier, alert: notice.labels.alertname, status: notice.status, why },
      'a notice is not sent',
    );
  }

  function enqueue(queue: Item[], item: Item): void {
    queue.push(item);
    const waiting = queue.filter(({ isDone }) => !isDone);
    if (waiting.length > MOST_WAITING) drop(waiting[0] as Item, 'too many wait');
  }

  async function remove({ account, key }: Pick<Item, 'account' | 'key'>): Promise<boolean> {
    try {
      await store.commit(account, [{ key, value: null }]);
      return true;
    } catch (error) {
      log.debug({ account, error: String(error) }, 'a notice that was sent is not removed from the store yet');
      return false;
    }
  }

  /** Tells one. Gives whether the receiver may be told of others now. */
  async function tell(item: Item, receiver: Receiver, signal: AbortSignal): Promise<boolean> {
    const told = await receiver.tell([item.notice], signal);
    const { notifier } = item;
    if (told.kind === 'accepted') {
      item.isDone = true;
      notifications.inc({ notifier, outcome: 'sent' });
      return true;
    }
    if (told.kind === 'refused') {
      drop(item, told.why);
      return true;
    }
    if (clock.monotonic() >= item.giveUpAt) {
      drop(item, `${told.why}, for too long`);
      return !told.isDown;
    }
    item.attempts += 1;
    item.notBefore = clock.monotonic() + backoffDelay(BACKOFF, item.attempts, random);
    notifications.inc({ notifier, outcome: 'failed' });
    const fields = { notifier, why: told.why, attempts: item.attempts };
    if (item.attempts === 1) log.warn(fields, 'a notice could not be sent and is tried again');
    else log.debug(fields, 'a notice still can not be sent');
    return !told.isDown;
  }

  /** What waits for one receiver is told of, the news of each alert in their order; a row that is done with goes. */
  function createLane(receiver: Receiver, queue: Item[]) {
    let pausedUntil = 0;
    return async (signal: AbortSignal) => {
      const held = new Set<string>();
      let isStoreUp = true;
      try {
        for (const item of [...queue]) {
          const isDue = clock.monotonic() >= Math.max(item.notBefore, pausedUntil) && !held.has(item.fingerprint);
          if (!item.isDone && isDue && !(await tell(item, receiver, signal))) pausedUntil = item.notBefore;
          if (!item.isDone) held.add(item.fingerprint);
          else if (isStoreUp) {
            isStoreUp = await remove(item);
            if (isStoreUp) queue.splice(queue.indexOf(item), 1);
          }
        }
      } catch (error) {
        if (!signal.aborted) log.error({ notifier: receiver.notifier, error: String(error) }, 'bug');
      }
    };
  }

  const items: Item[] = [];
  for (const account of accounts) {
    for (const [key, value] of await store.scan(account, PREFIX)) {
      last = Math.max(last, numberOf(key));
      const item = toItem(account, key, JSON.parse(value) as Row);
      if (receiverOf(item)) {
        items.push(item);
      } else {
        log.warn({ account, notifier: item.notifier }, 'a notice waits for a notifier that is not configured any more');
        await remove(item);
      }
    }
  }
  for (const item of items.sort((a, b) => numberOf(a.key) - numberOf(b.key))) {
    queues.get(receiverOf(item) as Receiver)?.push(item);
  }

  return {
    post(account, notices, isFor) {
      const posted = notices.flatMap(notice =>
        receivers.filter(isFor).map(receiver => {
          last += 1;
          const { notifier, member } = receiver;
          const row: Row = { notifier, member, at: clock.now(), notice };
          const item = toItem(account, `${PREFIX}${String(last).padStart(12, '0')}`, row);
          return { receiver, item, change: { key: item.key, value: JSON.stringify(row) } };
        }),
      );
      return {
        changes: () => posted.filter(({ item }) => !item.isDone).map(({ change }) => change),
        send() {
          for (const { receiver, item } of posted) enqueue(queues.get(receiver) as Item[], item);
        },
      };
    },
    lanes: [...queues].map(([receiver, queue]) => createLane(receiver, queue)),
  };
}
