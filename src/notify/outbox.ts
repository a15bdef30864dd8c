import type { Change } from '../model/change.ts';
import { NO_ACCOUNT } from '../store/store.ts';
import { createGroups, type Due, type Groups, type LastNotification, type Waiting } from './groups.ts';
import { fingerprintOf, type Notice } from './notice.ts';
import type { Receiver } from './notifiers/receiver.ts';
import {
  CHANGE,
  type ChangeRow,
  GROUPED,
  type GroupedRow,
  notificationKey,
  parseNotification,
  readStoredRows,
  type StoredRows,
} from './outbox-rows.ts';
import {
  createReceiverQueue,
  deleteRows,
  MAX_WAITING,
  type OutboxEntry,
  type QueueDeps,
  type ReceiverQueue,
  type RowKey,
} from './receiver-queue.ts';

export interface Posting {
  /** Returns rows of unsent notices, to commit together with the alert states. */
  changes(): readonly Change[];
  /** Queues the notices. Call it after the commit, or without a commit if the notices must be sent anyway. */
  send(): void;
}

/** Queue of notices, stored until they are sent. Delivers each at least once or drops it, and keeps the order of each alert. */
export type Outbox = ReturnType<typeof createOutbox>;

export interface OutboxDeps extends Omit<QueueDeps, 'notifier' | 'receiver' | 'onSent'> {
  readonly receivers: readonly Receiver[];
  /** All firing alerts that are not silenced, because a notification contains the complete group. */
  readonly firing: () => readonly Notice[];
}

interface Posted extends Waiting {
  readonly row: ChangeRow;
  /** Whether the row is no longer needed, because the notice was sent or dropped, or because another row contains it. */
  isSafe: boolean;
}

interface Line {
  receiver: Receiver;
  readonly queue: ReceiverQueue;
  groups: Groups<Posted> | undefined;
  readonly send: (signal: AbortSignal) => Promise<void>;
}

/** Rows of a missing notifier. `notifier` is undefined if the rows contain only times of notifications. */
interface Unwanted {
  readonly notifier: string | undefined;
  readonly rows: readonly RowKey[];
}

const idOf = ({ account, key }: RowKey) => `${account}\0${key}`;

export function createOutbox(deps: OutboxDeps) {
  const { store, firing, clock, log } = deps;
  let last = 0;
  /** Returns a key with a new highest number. */
  const nextKey = (prefix: string) => {
    last += 1;
    return `${prefix}${String(last).padStart(12, '0')}`;
  };

  const groupsOf = ({ grouping }: Receiver) =>
    grouping && createGroups<Posted>({ grouping, firing, clock, maxWaiting: MAX_WAITING });

  function createLine(receiver: Receiver): Line {
    /** Returns the notification's time as a row. The next process repeats the notification at once only if it was rejected. */
    function onSent({ group, order, at, notices }: OutboxEntry, isRefused: boolean): readonly Change[] {
      const { groups } = line;
      if (!group || !groups) return [];
      const stillFires = notices.some(({ status }) => status === 'firing');
      groups.setLastNotification(order, stillFires ? { at, isRefused } : undefined);
      const row = JSON.stringify({ at: isRefused ? 0 : at });
      return [{ key: notificationKey(receiver, order), value: stillFires ? row : null }];
    }
    const line: Line = {
      receiver,
      groups: groupsOf(receiver),
      queue: createReceiverQueue({
        ...deps,
        notifier: receiver.notifier,
        receiver: () => line.receiver,
        onSent,
      }),
      send: signal => sendOf(line, signal),
    };
    return line;
  }

  let lines = deps.receivers.map(createLine);
  const lineOf = ({ notifier, member }: Pick<Receiver, 'notifier' | 'member'>) =>
    lines.find(({ receiver }) => receiver.notifier === notifier && receiver.member === member);

  /** Queues a change or adds it to its group. A notice that ends by itself is an event and is sent without a group. */
  function enqueue({ groups, queue }: Line, posted: Posted): void {
    const { account, key, at, notice } = posted;
    if (groups && notice.lasts === undefined) {
      const dropped = groups.add(posted);
      if (!dropped) return;
      dropped.isSafe = true;
      queue.drop(dropped.account, [dropped.notice], 'queue full');
      return;
    }
    const onSafe = () => {
      posted.isSafe = true;
    };
    queue.add({ account, key, at, notices: [notice], order: fingerprintOf(notice.labels), takes: [], onSafe });
  }

  function queueGroup({ receiver, queue }: Line, { id, at, group, notices, taken }: Due<Posted>): void {
    const takes = taken.map(({ account, key }) => ({ account, key }));
    const { notifier, member } = receiver;
    const row: GroupedRow = { notifier, member, at, id, group, notices, takes };
    const onSafe = () => {
      for (const posted of taken) posted.isSafe = true;
    };
    const key = nextKey(GROUPED);
    queue.add({ account: NO_ACCOUNT, key, at, notices, order: id, group, takes, row: JSON.stringify(row), onSafe });
  }

  /** Deletes notification times of groups whose account or rule was removed. */
  async function deleteObsolete({ receiver, queue, groups }: Line): Promise<void> {
    const old = groups?.obsolete(queue.isQueued) ?? [];
    if (old.length === 0) return;
    for (const id of old) groups?.setLastNotification(id, undefined);
    const rows = old.map(id => ({ account: NO_ACCOUNT, key: notificationKey(receiver, id) }));
    await deleteRows(store, rows).catch(() => undefined);
  }

  async function sendOf(line: Line, signal: AbortSignal): Promise<void> {
    const { receiver, queue, groups } = line;
    try {
      for (const due of groups?.due(queue.isQueued) ?? []) queueGroup(line, due);
      await queue.run(signal);
      await deleteObsolete(line);
    } catch (error) {
      if (!signal.aborted) log.error({ notifier: receiver.notifier, error: String(error) }, 'bug');
    }
  }

  /** Switches a line to a changed receiver and regroups waiting changes. Rejected groups are due at once. */
  function switchReceiver(line: Line, receiver: Receiver): void {
    if (line.receiver === receiver) return;
    const before = line.groups?.all();
    line.receiver = receiver;
    line.queue.retryNow();
    line.groups = groupsOf(receiver);
    for (const [id, last] of before?.lastNotifications ?? [])
      line.groups?.setLastNotification(id, last.isRefused ? { ...last, at: 0 } : last);
    for (const posted of before?.waiting ?? []) enqueue(line, posted);
  }

  /** Rows replaced by restored notifications. */
  const taken = new Set<string>();
  const opened = new Set<string>();

  /** Restores notifications and notification times. Returns rows of missing receivers. */
  function restoreGroups({ account, grouped, notified }: StoredRows): Unwanted[] {
    const unwanted = grouped.flatMap(({ key, row }): Unwanted[] => {
      const { id, at, group, notices, takes, ...to } = row;
      for (const row of takes) taken.add(idOf(row));
      const line = lineOf(to);
      line?.queue.add({ account, key, at, notices, order: id, group, takes });
      return line ? [] : [{ notifier: to.notifier, rows: [...takes, { account, key }] }];
    });
    const unused = notified.flatMap(([key, value]): Unwanted[] => {
      const { id, at, ...to } = parseNotification(key, value);
      const groups = lineOf(to)?.groups;
      groups?.setLastNotification(id, { at });
      return groups ? [] : [{ notifier: undefined, rows: [{ account, key }] }];
    });
    return [...unwanted, ...unused];
  }

  /** Queues all restored rows. Returns rows of missing receivers. */
  function restore(stored: StoredRows): readonly Unwanted[] {
    const { account } = stored;
    last = Math.max(last, stored.lastNumber);
    const unwanted = restoreGroups(stored);
    for (const { key, row } of stored.changes) {
      if (taken.has(idOf({ account, key }))) continue;
      const line = lineOf(row);
      if (line) enqueue(line, { account, key, at: row.at, notice: row.notice, row, isSafe: false });
      else unwanted.push({ notifier: row.notifier, rows: [{ account, key }] });
    }
    return unwanted;
  }

  async function discard({ rows, notifier }: Unwanted): Promise<void> {
    const account = rows[0]?.account;
    if (notifier !== undefined) {
      log.warn({ account, notifier }, 'dropped a notification: its notifier is no longer configured');
    }
    await deleteRows(store, rows);
  }

  return {
    /**
     * Queues the stored rows of an account, unless it is open. Open `NO_ACCOUNT` first, and each account before its first `post`.
     * Deletes rows of unknown notifiers. Rejects with StoreError.
     */
    async open(account: string): Promise<void> {
      if (opened.has(account)) return;
      const stored = await readStoredRows(store, account);
      opened.add(account);
      const unwanted = restore(stored);
      for (const each of unwanted) await discard(each);
    },
    /**
     * Replaces the receivers, once their senders have ended. A receiver inherits the queue of its notifier and member. Deletes the rows
     * of removed receivers; rejects with StoreError if that fails.
     */
    async use(receivers: readonly Receiver[]): Promise<void> {
      const next = receivers.map(receiver => lineOf(receiver) ?? createLine(receiver));
      const removed = lines.filter(line => !next.includes(line));
      lines = next;
      for (const [index, receiver] of receivers.entries()) switchReceiver(next[index] as Line, receiver);
      for (const { receiver, queue, groups } of removed) {
        const { waiting = [], lastNotifications = new Map<string, LastNotification>() } = groups?.all() ?? {};
        const rows = [...queue.rows(), ...waiting.map(({ account, key }) => ({ account, key }))];
        if (rows.length > 0) await discard({ rows, notifier: receiver.notifier });
        const times = [...lastNotifications.keys()].map(id => ({
          account: NO_ACCOUNT,
          key: notificationKey(receiver, id),
        }));
        await deleteRows(store, times);
      }
    },
    post(account: string, notices: readonly Notice[], isFor: (receiver: Receiver) => boolean): Posting {
      const all = notices.flatMap(notice =>
        lines.flatMap(line => {
          if (!isFor(line.receiver)) return [];
          const { notifier, member } = line.receiver;
          const row: ChangeRow = { notifier, member, at: clock.now(), notice };
          const posted: Posted = { account, key: nextKey(CHANGE), at: row.at, notice, row, isSafe: false };
          return { line, posted };
        }),
      );
      return {
        changes: () =>
          all.flatMap(({ posted: { key, row, isSafe } }) => (isSafe ? [] : [{ key, value: JSON.stringify(row) }])),
        send() {
          for (const { line, posted } of all) enqueue(line, posted);
        },
      };
    },
    /** Loop bodies, one for each receiver. They never reject. */
    get senders() {
      return lines.map(({ send }) => send);
    },
  };
}
