import type { Change } from '../../model/change.ts';
import type { Routes } from '../routes.ts';
import {
  createDestinations,
  type DestinationOption,
  destinationReader,
  NONE,
  type StoredTally,
} from './destinations.ts';
import { eventIdentity, isEnding, type KeptEvent } from './kept-event.ts';
import {
  type Checkpoint,
  createQueueDeliveries,
  endsKeptFrom,
  type Memory,
  type OpenMessage,
  type Suspect,
} from './memory.ts';
import type { Schedule } from './schedule-options.ts';
import { createSchedules } from './schedules.ts';
import { createDestinationTally, createLogTally, type LogTally } from './tally.ts';
import { type OpenTrace, TraceCollector, type TraceOptions } from './traces.ts';

type StoredOpen = [number | null, number, number | null, number, 0 | 1, number?];
type StoredEvent = [string, number, number, number, string, ...(readonly string[])];
/** The checkpoint with the field names of its stored row. */
type StoredCheckpoint = Omit<Checkpoint, 'dedupeFrom' | 'watermark' | 'lastFollowed'> & {
  readonly rememberedFrom: number;
  readonly judgedTo: number;
  readonly judgedLast: number;
};

const idOf = (message: bigint) => message.toString(16);
const parseId = (text: string) => BigInt(`0x${text}`);

/** Encodes the bytes as Base64. All supported platforms are little-endian. */
const writeIdentities = ({ buffer, byteOffset, byteLength }: BigUint64Array) =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64');

function readIdentities(text: string): BigUint64Array {
  // Copied because a small Buffer may not be aligned to 8 bytes.
  return new BigUint64Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer);
}

function readCheckpoint(text: string): Checkpoint {
  const { rememberedFrom, judgedTo, judgedLast, ...rest } = JSON.parse(text) as StoredCheckpoint;
  return { ...rest, dedupeFrom: rememberedFrom, watermark: judgedTo, lastFollowed: judgedLast };
}

function writeCheckpoint({ dedupeFrom, watermark, lastFollowed, ...rest }: Checkpoint): string {
  const names = { rememberedFrom: dedupeFrom, judgedTo: watermark, judgedLast: lastFollowed };
  return JSON.stringify({ ...rest, ...names } satisfies StoredCheckpoint);
}

interface MemoryOptions {
  readonly destination: DestinationOption;
  readonly maxDestinations: number;
  readonly overlap: number;
}

interface MemoryServices {
  readonly routes: Routes;
  readonly schedules?: readonly Schedule[] | undefined;
  readonly traces?: TraceOptions | undefined;
}

export function restoreMemory(
  rows: ReadonlyMap<string, string>,
  { destination: option, maxDestinations, overlap }: MemoryOptions,
  { traces, routes, schedules = [] }: MemoryServices,
): Memory {
  const row = rows.get('checkpoint');
  const checkpoint = row === undefined ? undefined : readCheckpoint(row);
  const log = rows.get('log');
  // Stored destination names are meaningless if the option `destination` has changed.
  const isSameOption = checkpoint?.destination === option;
  const destinations = new Map<string, StoredTally>();
  const opened: [bigint, OpenMessage][] = [];
  const chunks: [number, readonly KeptEvent[]][] = [];
  const minutes: Memory['minutes'] = new Map();
  const suspects: Memory['suspects'] = new Map();
  const openTraces = new Map<bigint, OpenTrace>();
  const touched = new Set<string>();
  const scheduleRows = new Map<string, string>();
  for (const [key, value] of rows) {
    const [, kind = '', name = ''] = /^(\w+)\/?(.*)$/s.exec(key) ?? [];
    if (kind === 'destination' && name.startsWith(`${option}/`)) {
      // Rows of earlier versions have fewer counters.
      const stored = { ...createDestinationTally(), ...(JSON.parse(value) as StoredTally) };
      destinations.set(name.slice(option.length + 1), stored);
    } else if (kind === 'open') {
      const [createdAt, dueAt, activeAt, attempts, overdue, unansweredAt] = JSON.parse(value) as StoredOpen;
      const state = { createdAt: createdAt ?? undefined, dueAt, activeAt: activeAt ?? undefined, unansweredAt };
      opened.push([parseId(name), { ...state, attempts, overdue: overdue === 1, isStored: true }]);
    } else if (kind === 'chunk') {
      const events = (JSON.parse(value) as StoredEvent[]).map(([id, state, time, dueAt, stored, ...own]) => {
        const message = parseId(id);
        const destination = isSameOption ? stored : NONE;
        const identity = eventIdentity(message, state, time);
        const schedules = own.length > 0 ? own : undefined;
        return { identity, message, state, time, dueAt, destination, schedules, statusClass: 0 };
      });
      chunks.push([Number(name), events]);
    } else if (kind === 'redelivery') {
      const stored = JSON.parse(value) as Suspect[];
      const named = stored.map(([previous, start, name]): Suspect => [previous, start, isSameOption ? name : NONE]);
      suspects.set(parseId(name), named);
    } else if (kind === 'schedule') scheduleRows.set(name, value);
    else if (kind === 'minute') minutes.set(Number(name), readIdentities(value));
    else if (kind === 'traced' && traces) openTraces.set(parseId(name), JSON.parse(value) as OpenTrace);
    // Traces are disabled.
    else if (kind === 'traced') touched.add(key);
  }
  const events = chunks.flatMap(([, events]) => events);
  const endsFrom = checkpoint ? endsKeptFrom(checkpoint, overlap) : Number.NEGATIVE_INFINITY;
  const watermark = checkpoint?.watermark ?? 0;
  // In order of creation, because eviction starts with the oldest.
  const open = new Map(opened.sort(([, a], [, b]) => (a.createdAt ?? a.dueAt) - (b.createdAt ?? b.dueAt)));
  return {
    checkpoint: checkpoint && { ...checkpoint, destination: option },
    // Rows of earlier versions have fewer counters.
    log: { ...createLogTally(), ...(JSON.parse(log ?? '{}') as Partial<LogTally>) },
    destinations: createDestinations(option, maxDestinations, destinations),
    destinationOption: option,
    destinationOf: destinationReader(option, routes),
    schedules: createSchedules({
      configured: schedules,
      stored: scheduleRows,
      routes,
      touch: key => touched.add(key),
    }),
    open,
    suspects,
    chunks: new Map(chunks.sort(([a], [b]) => a - b)),
    pending: events.filter(({ time }) => time > watermark),
    ended: new Map(
      events
        .filter(({ state, time }) => isEnding(state) && time >= endsFrom && time <= watermark)
        .map(({ message, time }) => [message, time]),
    ),
    minutes,
    unreadable: undefined,
    recent: undefined,
    gauges: undefined,
    span: Number.POSITIVE_INFINITY,
    savedAt: Number.NEGATIVE_INFINITY,
    traces: traces && new TraceCollector(traces, openTraces),
    touched,
    touchedOpen: new Set(),
    queues: { from: Number.POSITIVE_INFINITY, deliveries: createQueueDeliveries() },
  };
}

function rowOf(memory: Memory, key: string): string | null {
  const [, kind = '', name = ''] = /^(\w+)\/?(.*)$/s.exec(key) ?? [];
  if (kind === 'checkpoint') return memory.checkpoint ? writeCheckpoint(memory.checkpoint) : null;
  if (kind === 'schedule') return memory.schedules.row(name);
  if (kind === 'log') return JSON.stringify(memory.log);
  if (kind === 'destination') {
    const stored = memory.destinations.stored(name.slice(name.indexOf('/') + 1));
    return stored ? JSON.stringify(stored) : null;
  }
  if (kind === 'redelivery') {
    const suspects = memory.suspects.get(parseId(name));
    return suspects ? JSON.stringify(suspects) : null;
  }
  if (kind === 'chunk') {
    const chunk = memory.chunks.get(Number(name));
    const stored = ({ message, state, time, dueAt, destination, schedules = [] }: KeptEvent): StoredEvent => [
      idOf(message),
      state,
      time,
      dueAt,
      destination,
      ...schedules,
    ];
    return chunk ? JSON.stringify(chunk.map(stored)) : null;
  }
  const minute = kind === 'minute' ? memory.minutes.get(Number(name)) : undefined;
  return minute ? writeIdentities(minute) : null;
}

function openRow(open: OpenMessage | undefined): string | null {
  if (!open) return null;
  open.isStored = true;
  const { createdAt = null, dueAt, activeAt = null, attempts, overdue, unansweredAt } = open;
  const stored: StoredOpen = [createdAt, dueAt, activeAt, attempts, overdue ? 1 : 0];
  if (unansweredAt !== undefined) stored.push(unansweredAt);
  return JSON.stringify(stored);
}

export function drainChanges(memory: Memory): Change[] {
  const { touched, touchedOpen, open } = memory;
  const changes: Change[] = [...touched].map(key => ({ key, value: rowOf(memory, key) }));
  for (const message of touchedOpen) {
    changes.push({ key: `open/${idOf(message)}`, value: openRow(open.get(message)) });
  }
  for (const change of memory.traces?.drainChanges() ?? []) changes.push(change);
  touched.clear();
  touchedOpen.clear();
  return changes;
}
