import { boundText } from '../../kit/text.ts';
import {
  type DepartureReason,
  type LogRecord,
  MOST_RECORDS,
  type RecordBatch,
  type RecordedLetter,
} from '../../model/log-record.ts';
import type { DlqEntry } from '../../model/message.ts';
import type { Row } from '../collector.ts';

/** Entries whose ids are remembered: of another that leaves, its record says only when it came. */
const MOST_LETTERS = 10_000;
/** Rows that one commit writes: what is left comes with the next. */
const MOST_ROWS = 500;
const LONGEST_ID = 512;
const LONGEST_TEXT = 200;

const PREFIX = 'letter/';

/** Who is in the queue, as far as log records need to know when they come and go. Changed in place. */
export interface Letters {
  /** Remembers an entry that is listed. For one that is new, another is forgotten where there is no room. */
  note(id: bigint, entry: DlqEntry, isNew: boolean): void;
  /** The `number`th that was counted came. */
  entered(id: bigint, number: number): void;
  /** The `number`th that was counted went for this reason; it is forgotten by `keepOnly`. `since`: milliseconds. */
  left(id: () => bigint, departure: { reason: DepartureReason; since: number; number: number }): void;
  /** Forgets those that are not in the queue. */
  keepOnly(isThere: (id: bigint) => boolean): void;
  /** Records that were made since the last call. */
  takeRecords(): RecordBatch;
  /** Rows that changed since the last call, 500 at most. */
  takeRows(): Row[];
}

export const isLetterRow = (key: string) => key.startsWith(PREFIX);

/** A longer id is none: cut, it would be another's. */
const idOf = (id: string | undefined) => (id !== undefined && id.length <= LONGEST_ID ? id : undefined);
const textOf = (text: string | undefined) => (text === undefined ? undefined : boundText(text, LONGEST_TEXT));

function originOf(url: string | undefined): string | undefined {
  const address = url === undefined ? null : URL.parse(url);
  return address?.hostname ? textOf(`${address.protocol}//${address.host}`) : undefined;
}

const toLetter = (entry: DlqEntry): RecordedLetter => ({
  dlqId: idOf(entry.dlqId),
  messageId: idOf(entry.messageId),
  enteredAt: entry.enteredAt,
  origin: originOf(entry.url),
  method: textOf(entry.method),
  status: entry.responseStatus,
  topic: textOf(entry.topic),
  queue: textOf(entry.queue),
  schedule: textOf(entry.schedule),
  workflowRunId: idOf(entry.workflowRunId),
});

const keyOf = (id: bigint) => `${PREFIX}${id.toString(16)}`;

export function createLetters(stored: ReadonlyMap<string, string> = new Map()): Letters {
  const letters = new Map<bigint, RecordedLetter>();
  /** Those that have a row. */
  const kept = new Set<bigint>();
  const touched = new Set<bigint>();
  let records: LogRecord[] = [];
  let dropped = 0;
  for (const [key, value] of stored) {
    if (!isLetterRow(key)) continue;
    const id = BigInt(`0x${key.slice(PREFIX.length)}`);
    letters.set(id, JSON.parse(value) as RecordedLetter);
    kept.add(id);
  }

  function forget(id: bigint): void {
    letters.delete(id);
    if (kept.has(id)) touched.add(id);
    else touched.delete(id);
  }

  function add(make: () => LogRecord): void {
    if (records.length < MOST_RECORDS) records.push(make());
    else dropped += 1;
  }

  return {
    note(id, entry, isNew) {
      if (letters.has(id)) return;
      if (letters.size >= MOST_LETTERS) {
        const [oldest] = isNew ? letters.keys() : [];
        if (oldest === undefined) return;
        forget(oldest);
      }
      letters.set(id, toLetter(entry));
      touched.add(id);
    },
    entered(id, number) {
      const letter = letters.get(id);
      const at = letter?.enteredAt;
      add(() => ({ id: `entered/${id.toString(16)}/${number}`, at, kind: 'dlq_entered', letter }));
    },
    left(readId, { reason, since, number }) {
      add(() => {
        const id = readId();
        const letter = letters.get(id);
        // When it went, between two walks, nothing says.
        return {
          id: `left/${id.toString(16)}/${reason}/${number}`,
          at: undefined,
          kind: 'dlq_left',
          reason,
          since,
          letter,
        };
      });
    },
    keepOnly(isThere) {
      for (const id of letters.keys()) if (!isThere(id)) forget(id);
    },
    takeRecords() {
      const taken = { records, dropped };
      [records, dropped] = [[], 0];
      return taken;
    },
    takeRows() {
      const rows: Row[] = [];
      for (const id of touched) {
        if (rows.length >= MOST_ROWS) break;
        const letter = letters.get(id);
        rows.push({ key: keyOf(id), value: letter ? JSON.stringify(letter) : null });
        touched.delete(id);
        if (letter) kept.add(id);
        else kept.delete(id);
      }
      return rows;
    },
  };
}
