import type { Change } from '../model/change.ts';
import { NO_ACCOUNT } from '../store/store.ts';
import type { Group } from './group.ts';
import { createGroups, type Due, type Groups, type Waiting } from './groups.ts';
import { fingerprintOf, type Notice } from './notice.ts';
import type { Receiver } from './notifiers/receiver.ts';
import {
  createReceiverQueue,
  MOST_WAITING,
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
  /**
   * Reads the same of further accounts, and gives how to go on with it and with these receivers. One that is there already, by
   * notifier and member, keeps what waits for it. Rejects with StoreError.
   */
  prepare(accounts: readonly string[], receivers: readonly Receiver[]): Promise<Prepared>;
  /** Drops what waits for receivers that are gone; to be called when their senders have ended. */
  dropGone(): Promise<void>;
  /** Of an account, to every receiver that `isFor` says. */
  post(account: string, notices: readonly Notice[], isFor: (receiver: Receiver) => boolean): Posting;
  /** Bodies of loops, one a receiver; none rejects. */
  readonly senders: readonly ((signal: AbortSignal) => Promise<void>)[];
}

/** What the outbox will be for other receivers. */
export interface Prepared {
  /** As `Outbox.senders`; the body of a receiver that stays is the same. */
  readonly senders: Outbox['senders'];
  /** Puts it in the place of what was. */
  take(): void;
}

export interface OutboxDeps extends Omit<QueueDeps, 'notifier' | 'receiver' | 'onSent'> {
  /** Those to begin with. */
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
  receiver: Receiver;
  readonly queue: ReceiverQueue;
  groups: Groups<Posted> | undefined;
  readonly send: (signal: AbortSignal) => Promise<void>;
}

/** A row of an account that an earlier process left. */
interface Left extends RowKey {
  readonly row: Row;
}

const PREFIX = 'alerts/outbox/';
const GROUPED = 'alerts/grouped/';
const TOLD = 'alerts/told/';

const numberOf = (key: string) => Number(key.slice(key.lastIndexOf('/') + 1));
const toldKey = ({ notifier, member }: Receiver, id: string) => `${TOLD}${notifier}/${member}/${id}`;
const idOf = ({ account, key }: RowKey) => `${account}\0${key}`;

export function createOutbox(deps: OutboxDeps): Outbox {
  const { store, firing, clock, log } = deps;
  let last = 0;
  const nextKey = (prefix: string) => {
    last += 1;
    return prefix + String(last).padStart(12, '0');
  };

  const groupsOf = ({ grouping }: Receiver) =>
    grouping && createGroups<Posted>({ grouping, firing, clock, most: MOST_WAITING });

  function createLine(receiver: Receiver): Line {
    /** When a group was told has to be known to the next process, or it would be told again. */
    function onSent({ group, order, at, notices }: Request): readonly Change[] {
      const { groups } = line;
      if (!group || !groups) return [];
      const stillFires = notices.some(({ status }) => status === 'firing');
      groups.told(order, stillFires ? at : undefined);
      return [{ key: toldKey(receiver, order), value: stillFires ? JSON.stringify({ at }) : null }];
    }
    const line: Line = {
      receiver,
      groups: groupsOf(receiver),
      queue: createReceiverQueue({ ...deps, notifier: receiver.notifier, receiver: () => line.receiver, onSent }),
      send: signal => sendOf(line, signal),
    };
    return line;
  }

  let lines = deps.receivers.map(createLine);
  let gone: readonly Line[] = [];
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

  async function sendOf(line: Line, signal: AbortSignal): Promise<void> {
    const { receiver, queue, groups } = line;
    try {
      for (const due of groups?.due(queue.isUnderWay) ?? []) queueGroup(line, due);
      await queue.run(signal);
      await forget(line);
    } catch (error) {
      if (!signal.aborted) log.error({ notifier: receiver.notifier, error: String(error) }, 'bug');
    }
  }

  /** Sends to another receiver of the same name from now on. Changes that wait are grouped as it wants them. */
  function handOver(line: Line, receiver: Receiver): void {
    if (line.receiver === receiver) return;
    const before = line.groups?.all();
    line.receiver = receiver;
    line.queue.retryNow();
    line.groups = groupsOf(receiver);
    for (const [id, at] of before?.told ?? []) line.groups?.told(id, at);
    for (const posted of before?.waiting ?? []) enqueue(line, posted);
  }

  /** Keys of all rows that what an earlier process queued stands for. */
  const taken = new Set<string>();
  /** Accounts of which the rows were read. */
  const opened = new Set<string>();

  async function openGrouped(): Promise<void> {
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
  }

  async function read(accounts: readonly string[]): Promise<readonly Left[]> {
    const left: Left[] = [];
    for (const account of accounts) {
      if (opened.has(account)) continue;
      for (const [key, value] of await store.scan(account, PREFIX)) {
        last = Math.max(last, numberOf(key));
        if (!taken.has(idOf({ account, key }))) left.push({ account, key, row: JSON.parse(value) as Row });
      }
    }
    return left.sort((a, b) => numberOf(a.key) - numberOf(b.key));
  }

  /** Queues them; gives those of receivers that are not there. */
  function take(accounts: readonly string[], left: readonly Left[]): readonly Left[] {
    for (const account of accounts) opened.add(account);
    return left.filter(({ account, key, row }) => {
      const line = lineOf(row);
      if (line) enqueue(line, { account, key, at: row.at, notice: row.notice, row, isSafe: false });
      return !line;
    });
  }

  async function discard(rows: readonly RowKey[], notifier: string): Promise<void> {
    const account = rows[0]?.account;
    log.warn({ account, notifier }, 'a notification waits for a notifier that is no longer configured');
    for (const { account, key } of rows) await store.commit(account, [{ key, value: null }]);
  }

  return {
    async open(accounts) {
      await openGrouped();
      const all = [NO_ACCOUNT, ...accounts];
      for (const { row, ...left } of take(all, await read(all))) await discard([left], row.notifier);
    },
    async prepare(accounts, receivers) {
      const left = await read(accounts);
      const next = receivers.map(receiver => lineOf(receiver) ?? createLine(receiver));
      return {
        senders: next.map(({ send }) => send),
        take() {
          gone = [...gone, ...lines.filter(line => !next.includes(line))];
          lines = next;
          for (const [index, receiver] of receivers.entries()) handOver(next[index] as Line, receiver);
          take(accounts, left);
        },
      };
    },
    async dropGone() {
      const dropped = gone;
      gone = [];
      for (const { receiver, queue, groups } of dropped) {
        const { waiting = [], told = new Map<string, number>() } = groups?.all() ?? {};
        const rows = [...queue.rows(), ...waiting.map(({ account, key }) => ({ account, key }))];
        if (rows.length > 0) await discard(rows, receiver.notifier);
        for (const id of told.keys()) await store.commit(NO_ACCOUNT, [{ key: toldKey(receiver, id), value: null }]);
      }
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
    get senders() {
      return lines.map(({ send }) => send);
    },
  };
}
