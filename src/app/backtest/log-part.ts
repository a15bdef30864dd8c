import { createEventTable, type EventTable, eventAt, timeAt } from '../../collectors/events/event-table.ts';
import { byTime } from '../../collectors/events/kept-event.ts';
import type { LogPart } from '../../collectors/events/relive.ts';

/** A part of the log as flat arrays, which go to another thread without a copy. Its events are in the order of `byTime`. */
export interface PackedPart extends Pick<LogPart, 'readTo' | 'rejected'> {
  readonly table: EventTable;
  /** Of each event the class of its status, which the table has no place for. */
  readonly statusClasses: Uint8Array<ArrayBuffer>;
}

export function packPart({ readTo, rejected, events }: LogPart): PackedPart {
  const sorted = events.toSorted(byTime);
  return {
    readTo,
    rejected,
    table: createEventTable(sorted),
    statusClasses: Uint8Array.from(sorted, e => e.statusClass),
  };
}

/** What goes to the other thread; it is empty here afterwards. */
export const buffersOf = ({ table, statusClasses }: PackedPart): ArrayBuffer[] =>
  [table.hashes.buffer, statusClasses.buffer].filter(buffer => buffer instanceof ArrayBuffer);

/**
 * Events that are unpacked at a time. Each collection of young garbage copies those that wait to be judged. And where the first
 * hundred of an object all outlive one, V8 takes every later one for long-lived, and collects it with the old ones alone.
 */
const SLICE = 64;

/** The part in smaller ones, one after the other, so that few of its events are objects at a time. */
export function* unpackPart({ readTo, rejected, table, statusClasses }: PackedPart): Generator<LogPart> {
  for (let first = 0; first === 0 || first < table.size; first += SLICE) {
    const end = Math.min(table.size, first + SLICE);
    const events = Array.from({ length: end - first }, (_, place) =>
      eventAt(table, first + place, statusClasses[first + place]),
    );
    // Of the time of the next one, not all may be in this slice.
    yield { readTo: end < table.size ? timeAt(table, end) - 1 : readTo, rejected, events };
  }
}
