import { createEventTable, type EventTable, eventAt } from '../../collectors/events/event-table.ts';
import type { LogPart } from '../../collectors/events/relive.ts';

/** A part of the log as flat arrays, which go to another thread without a copy. */
export interface PackedPart extends Pick<LogPart, 'readTo' | 'rejected'> {
  readonly table: EventTable;
  /** Of each event the class of its status, which the table has no place for. */
  readonly statusClasses: Uint8Array<ArrayBuffer>;
}

export function packPart({ readTo, rejected, events }: LogPart): PackedPart {
  return {
    readTo,
    rejected,
    table: createEventTable(events),
    statusClasses: Uint8Array.from(events, e => e.statusClass),
  };
}

/** What goes to the other thread; it is empty here afterwards. */
export const buffersOf = ({ table, statusClasses }: PackedPart): ArrayBuffer[] =>
  [table.hashes.buffer, statusClasses.buffer].filter(buffer => buffer instanceof ArrayBuffer);

export function unpackPart({ readTo, rejected, table, statusClasses }: PackedPart): LogPart {
  const events = Array.from(statusClasses, (statusClass, index) => eventAt(table, index, statusClass));
  return { readTo, rejected, events };
}
