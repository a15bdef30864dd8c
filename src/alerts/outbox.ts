import type { Change } from '../model/change.ts';
import type { Group } from './group.ts';
import { createGroups, type Due, type Groups, type Waiting } from './groups.ts';
import { fingerprintOf, type Notice } from './notice.ts';
import type { Receiver } from './notifiers/receiver.ts';
import {
  createReceiverQueue,
  MOST_WAITING,
  NO_ACCOUNT,
  type QueueDeps,
  type ReceiverQueue,
  type Request,
  type RowKey,
} from './receiver-queue.ts';

/** Notices that are about to be put into the outbox. */
export interface Posting {
  /** Rows to commit, in the transaction that makes them true; later, those of them that were not sent yet. */
  changes(): readonly Change[];
  /** Queues them. To be called once they are committed, or where they shall be sent in any case. */
  send(): void;
}

/** Notices that are sent once, kept in the store until they were: at least once, in order for each alert. */
export interface Outbox {
  /** Reads what an earlier process left of all accounts; to be done before the first `post`. Rejects with StoreError. */
  open(accounts: readonly string[]): Promise<void>;
  /** Of an account, to every receiver that `isFor` says. */
  post(account: string, notices: readonly Notice[], isFor: (receiver: Receiver) => boolean): Posting;
  /** Bodies of loops, one a receiver; none rejects. */
  readonly senders: readonly ((signal: AbortSignal) => Promise<void>)[];
}

export interface OutboxDeps extends Omit<QueueDeps, 'receiver' | 'onSent'> {
  readonly receivers: readonly Receiver[];
  /** All that fires and is sent: what is told of a group says the whole of it. */
  readonly firing: () => readonly Notice[];
}

/** A row of an account: a change that was not told yet. */
interface Row {
  readonly notifier: string;
  readonly member: number;
  /** When it was put there, milliseconds since the Unix epoch. */
  readonly at: number;
  readonly notice: Notice;
}

/** A row of no account: what is told of a group, as it was when it was first sent. */
interface GroupedRow extends Pick<Due, 'id' | 'at' | 'notices'> {
  readonly notifier: string;
  readonly member: number;
  readonly group: Group;
  readonly takes: readonly RowKey[];
}

/** A change, whether or not it waits for its group. */
interface Posted extends Waiting {
  readonly row: Row;
  /** The next process will not need its row: it was sent, dropped, or stands in another. */
  isSafe: boolean;
}

interface Line {
  readonly receiver: Receiver;
  readonly queue: ReceiverQueue;
  readonly groups: Groups<Posted> | undefined;
}

const PREFIX = 'alerts/outbox/';
const GROUPED = 'alerts/grouped/';
const TOLD = 'alerts/told/';

const numberOf = (key: string) => Number(key.slice(key.lastIndexOf('/') + 1));
const toldKey = ({ notifier, member }: Receiver, id: string) => `${TOLD}${notifier}/${member}/${id}`;
const idOf = ({ account, key }: RowKey) => `${account}\0${key}`;

export function createOutbox(deps: OutboxDeps): Outbox {
  const { store, receivers, firing, clock, log } = deps;
  let last = 0;
  const nextKey = (prefix: string) => {
    last += 1;
    return prefix + String(last).padStart(12, '0');
  };

  function createLine(receiver: Receiver): Line {
    const { grouping } = receiver;
    const groups = grouping && createGroups<Posted>({ grouping, firing, clock, most: MOST_WAITING });
    /** When a group was told has to be known to the next process, or it would be told again. */
    function onSent({ group, order, at, notices }: Request): readonly Change[] {
      if (!group || !groups) return [];
      const stillFires = notices.some(({ status }) => status === 'firing');
      groups.told(order, stillFires ? at : undefined);
      return [{ key: toldKey(receiver, order), value: stillFires ? JSON.stringify({ at }) : null }];
    }
    return { receiver, groups, queue: createReceiverQueue({ ...deps, receiver, onSent }) };
  }

  const lines = receivers.map(createLine);
  const lineOf = ({ notifier, member }: Pick<Receiver, 'notifier' | 'member'>) =>
    lines.find(({ receiver }) => receiver.notifier === notifier && receiver.member === member);

  /** Queues a change, or lets it wait for its group. What ends by itself is an event, and no state that others share. */
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

  /** Forgets rows that say when a group was told, of which nothing fires any more: an account or a rule is gone. */
  async function forget({ receiver, queue, groups }: Line): Promise<void> {
    const old = groups?.forgettable(queue.isUnderWay) ?? [];
    if (old.length === 0) return;
    for (const id of old) groups?.told(id, undefined);
    const changes = old.map(id => ({ key: toldKey(receiver, id), value: null }));
    await store.commit(NO_ACCOUNT, changes).catch(() => undefined);
  }

  function createSender(line: Line) {
    const { receiver, queue, groups } = line;
    return async (signal: AbortSignal) => {
      try {
        for (const due of groups?.due(queue.isUnderWay) ?? []) queueGroup(line, due);
        await queue.run(signal);
        await forget(line);
      } catch (error) {
        if (!signal.aborted) log.error({ notifier: receiver.notifier, error: String(error) }, 'bug');
      }
    };
  }

  /** Gives the keys of all rows that what is queued stands for. */
  async function openGrouped(): Promise<Set<string>> {
    const taken = new Set<string>();
    const rows = [...(await store.scan(NO_ACCOUNT, GROUPED))].sort(([a], [b]) => numberOf(a) - numberOf(b));
    for (const [key, value] of rows) {
      last = Math.max(last, numberOf(key));
      const { id, at, group, notices, takes, ...to } = JSON.parse(value) as GroupedRow;
      for (const row of takes) taken.add(idOf(row));
      const line = lineOf(to);
      if (line) line.queue.add({ account: NO_ACCOUNT, key, at, notices, order: id, group, takes });
      else await discard([...takes, { account: NO_ACCOUNT, key }], to.notifier);
    }
    for (const [key, value] of await store.scan(NO_ACCOUNT, TOLD)) {
      const [notifier = '', member, id = ''] = key.slice(TOLD.length).split('/');
      const groups = lineOf({ notifier, member: Number(member) })?.groups;
      const { at } = JSON.parse(value) as { readonly at: number };
      if (groups) groups.told(id, at);
      else await store.commit(NO_ACCOUNT, [{ key, value: null }]);
    }
    return taken;
  }

  async function discard(rows: readonly RowKey[], notifier: string): Promise<void> {
    const account = rows[0]?.account;
    log.warn({ account, notifier }, 'a notification waits for a notifier that is no longer configured');
    for (const { account, key } of rows) await store.commit(account, [{ key, value: null }]);
  }

  return {
    async open(accounts) {
      const taken = await openGrouped();
      const waiting: { readonly line: Line; readonly posted: Posted }[] = [];
      for (const account of [NO_ACCOUNT, ...accounts]) {
        for (const [key, value] of await store.scan(account, PREFIX)) {
          last = Math.max(last, numberOf(key));
          if (taken.has(idOf({ account, key }))) continue;
          const row = JSON.parse(value) as Row;
          const line = lineOf(row);
          if (!line) await discard([{ account, key }], row.notifier);
          else waiting.push({ line, posted: { account, key, at: row.at, notice: row.notice, row, isSafe: false } });
        }
      }
      waiting.sort((a, b) => numberOf(a.posted.key) - numberOf(b.posted.key));
      for (const { line, posted } of waiting) enqueue(line, posted);
    },
    post(account, notices, isFor) {
      const all = notices.flatMap(notice =>
        lines.flatMap(line => {
          if (!isFor(line.receiver)) return [];
          const { notifier, member } = line.receiver;
          const row: Row = { notifier, member, at: clock.now(), notice };
          const posted: Posted = { account, key: nextKey(PREFIX), at: row.at, notice, row, isSafe: false };
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
    senders: lines.map(createSender),
  };
}
