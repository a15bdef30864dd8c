import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import { type LogRecord, MOST_RECORDS, NO_RECORDS, type Records } from '../model/log-record.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';

/** A record as it is sent. `seenAt`: when it was made, milliseconds since the Unix epoch. */
export type StoredRecord = LogRecord & { readonly seenAt: number };

/** Records of one row. */
export interface RecordRow {
  readonly key: string;
  /** How many there are in it. */
  readonly count: number;
  records(): readonly StoredRecord[];
}

/** What counts records that are dropped. */
interface Taking {
  dropped(records: number): void;
}

/** Log records that wait for the receiver. Their rows are in the store; this keeps their number. */
export interface RecordQueue extends Records {
  /** Records are taken from now on, and those dropped are counted there; undefined: none is taken. */
  use(taking: Taking | undefined): void;
  /**
   * Accounts that may have something to send: of one that was not among the last `accounts`, it is looked for. One that is gone
   * may still have its last records.
   */
  withRecords(accounts: readonly string[]): readonly string[];
  /** What waits of an account, the oldest first. Rejects with StoreError. */
  read(account: string): Promise<readonly RecordRow[]>;
  /** The receiver took them, or never will. Rejects with StoreError. */
  remove(account: string, rows: readonly RecordRow[]): Promise<void>;
  /** Deletes what has waited for a day of accounts that are not configured, until that is aborted. Rejects with StoreError. */
  deleteOthers(configured: readonly string[], signal: AbortSignal): Promise<void>;
}

interface Row {
  readonly seenAt: number;
  readonly records: readonly LogRecord[];
}

const PREFIX = 'push/logs/';
/** Records in one row, and so in one request: making and packing it may take milliseconds, and not tens of them. */
export const MOST_TOGETHER = 250;

/** What waits of one account, in records. */
interface Waiting {
  /** As far as it was read, and committed since. */
  stored: number;
  /** Rows may be there that were not read. */
  isToRead: boolean;
  /** Logged once, until nothing waits any more: a receiver that is merely slow would repeat it. */
  isFull: boolean;
}

/**
 * Milliseconds for which records of an account that is not configured are kept: its configuration may come back, or be that of a
 * replica which is down, or has lost the database, for some time.
 */
const KEPT_FOR = 86_400_000;

/** Where keys of rows that were made then, or later, begin. */
const keyAt = (time: number) => PREFIX + String(Math.max(0, time)).padStart(15, '0');
/** In the order in which they were made. The first record's id tells rows of two processes apart. */
const keyOf = (seenAt: number, number: number, records: readonly LogRecord[]) =>
  [keyAt(seenAt), String(number).padStart(9, '0'), records[0]?.id, records.length].join('/');

const countOf = (key: string) => Number(key.slice(key.lastIndexOf('/') + 1));

export interface RecordQueueDeps {
  readonly store: Pick<Store, 'scan' | 'commit' | 'deleteOthers'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
}

export function createRecordQueue({ store, clock, log }: RecordQueueDeps): RecordQueue {
  let taking: Taking | undefined;
  let rowsMade = 0;
  const accounts = new Map<string, Waiting>();

  function waitingOf(account: string): Waiting {
    const known = accounts.get(account) ?? { stored: 0, isToRead: true, isFull: false };
    accounts.set(account, known);
    return known;
  }

  function drop(account: string, waiting: Waiting, count: number): void {
    if (count === 0) return;
    taking?.dropped(count);
    if (!waiting.isFull) {
      log.warn({ account, waiting: MOST_RECORDS }, 'the queue of log records is full: new ones are dropped');
    }
    waiting.isFull = true;
  }

  return {
    use(next) {
      taking = next;
    },
    post(account, batch) {
      if (!taking || batch.records.length + batch.dropped === 0) return NO_RECORDS;
      const waiting = waitingOf(account);
      // What is on its way does not count: it may never be committed.
      const room = Math.max(0, MOST_RECORDS - waiting.stored);
      const taken = batch.records.slice(0, room);
      drop(account, waiting, batch.records.length - taken.length + batch.dropped);
      const seenAt = clock.now();
      const changes: Change[] = [];
      for (let from = 0; from < taken.length; from += MOST_TOGETHER) {
        const records = taken.slice(from, from + MOST_TOGETHER);
        rowsMade += 1;
        changes.push({
          key: keyOf(seenAt, rowsMade, records),
          value: JSON.stringify({ seenAt, records } satisfies Row),
        });
      }
      return {
        changes: () => changes,
        send() {
          // The account may have gone and come meanwhile.
          const now = waitingOf(account);
          now.stored += taken.length;
          now.isToRead ||= taken.length > 0;
        },
      };
    },
    withRecords(names) {
      const here = new Set(names);
      for (const [name, { isToRead }] of accounts) if (!here.has(name) && !isToRead) accounts.delete(name);
      for (const name of names) waitingOf(name);
      return [...accounts].flatMap(([name, { isToRead }]) => (isToRead ? [name] : []));
    },
    async read(account) {
      const waiting = waitingOf(account);
      waiting.isToRead = false;
      try {
        const rows = [...(await store.scan(account, PREFIX))].sort(([a], [b]) => (a < b ? -1 : 1));
        const found = rows.map(([key, value]) => ({
          key,
          count: countOf(key),
          records() {
            const { seenAt, records } = JSON.parse(value) as Row;
            return records.map(record => ({ ...record, seenAt }));
          },
        }));
        waiting.stored = found.reduce((sum, { count }) => sum + count, 0);
        if (waiting.stored > 0) waiting.isToRead = true;
        else waiting.isFull = false;
        return found;
      } catch (error) {
        waiting.isToRead = true;
        throw error;
      }
    },
    async deleteOthers(configured, signal) {
      const rows = await store.deleteOthers(configured, PREFIX, keyAt(clock.now() - KEPT_FOR), signal);
      if (rows === 0) return;
      log.info({ rows }, 'log records of accounts that are no longer configured were deleted unsent');
      // One of them that comes back has room for new ones.
      for (const [name, waiting] of accounts) {
        if (name !== NO_ACCOUNT && !configured.includes(name)) Object.assign(waiting, { stored: 0, isToRead: true });
      }
    },
    async remove(account, rows) {
      await store.commit(
        account,
        rows.map(({ key }) => ({ key, value: null })),
      );
      const waiting = waitingOf(account);
      waiting.stored = Math.max(0, waiting.stored - rows.reduce((sum, { count }) => sum + count, 0));
    },
  };
}
