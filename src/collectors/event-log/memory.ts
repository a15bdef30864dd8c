import { extendHash64 } from '../../kit/hash64.ts';
import { type DeliveryEvent, EVENT_STATES } from '../../model/message.ts';
import type { Row } from '../collector.ts';
import { createDestinations, type DestinationOption, type Destinations, destinationReader } from './destinations.ts';
import type { Recent } from './recent.ts';
import { createDestinationTally, createLogTally, type DestinationTally, type LogTally } from './tally.ts';

/** One event as it is kept: texts are hashes, times are milliseconds since the Unix epoch. */
export interface KeptEvent {
  readonly message: bigint;
  /** Index in EVENT_STATES. */
  readonly state: number;
  readonly time: number;
  /** When the message is due, as far as the event says; 0 when it does not. */
  readonly dueAt: number;
  readonly destination: string;
}

/** What makes an event the same event: the message, the state and the time. */
export const identityOf = ({ message, state, time }: KeptEvent) => extendHash64(message, state, time);

/** A message that has not ended. */
export interface OpenMessage {
  /** Undefined when it began before the log was read. */
  readonly createdAt: number | undefined;
  /** When it was due: what waiting counts from. */
  readonly dueAt: number;
  /** Began and has no answer yet. */
  activeAt: number | undefined;
  attempts: number;
  overdue: boolean;
  readonly destination: string;
  /** Its row is in the store. */
  isStored: boolean;
}

/** Events that were found by one read and are remembered so that none is counted twice. */
export interface Chunk {
  readonly events: readonly KeptEvent[];
  /** The latest time among them. */
  readonly last: number;
}

/** How far the log is read. Times: milliseconds since the Unix epoch. */
export interface Checkpoint {
  /** Events until here are history: they happened before anything was counted. */
  readonly floor: number;
  /** Time of the newest event ever seen. */
  newest: number | undefined;
  /** Every identity after this is remembered. What is older can't be told from new, and is not read again. */
  rememberedFrom: number;
  /** The last read that was complete asked for events until here. */
  readTo: number;
  /** The lives of messages are followed until here; later events may still be joined by earlier ones. */
  judgedTo: number;
  /** Time of the last event that was judged. */
  judgedLast: number;
  /** The sweep has looked again at everything until here. */
  sweptTo: number;
  nextChunk: number;
}

/** Everything that is known of one account's log. Changed in place. */
export interface Memory {
  checkpoint: Checkpoint | undefined;
  readonly log: LogTally;
  readonly destinations: Destinations;
  /** Name of the destination of an event, as the configuration says. */
  readonly destinationOf: (event: DeliveryEvent) => string;
  readonly open: Map<bigint, OpenMessage>;
  readonly chunks: Map<number, Chunk>;
  readonly seen: Set<bigint>;
  /** Events after `judgedTo`, in any order. */
  unjudged: KeptEvent[];
  /** Messages that ended in the time whose identities are remembered, and when. */
  readonly ended: Map<bigint, number>;
  /** Identities of the events that were counted, by minute: what the sweep compares with. */
  readonly minutes: Map<number, BigUint64Array>;
  /** Undefined until the first read of this process. */
  recent: Recent | undefined;
  /** A silence of the log that may hide a gap: until when signs of one are looked for. */
  silenceUntil: number;
  /** Answers to attempts whose beginning the log did not show; a service that never shows any has no gaps for that. */
  answersWithoutStart: number;
  /** When the checkpoint was committed last. */
  savedAt: number;
  /** Keys of rows to write with the next commit. */
  readonly touched: Set<string>;
}

export const MINUTE = 60_000;

/** In an order in which they can have happened at the same millisecond. */
const RANK = ['created', 'active', 'error', 'retry', 'cancel_requested', 'failed', 'delivered', 'cancelled', 'unknown'];
const RANK_OF = EVENT_STATES.map(state => RANK.indexOf(state));

export const byTime = (a: KeptEvent, b: KeptEvent) =>
  a.time - b.time || (RANK_OF[a.state] as number) - (RANK_OF[b.state] as number);

type StoredOpen = [number | null, number, number | null, number, 0 | 1, string];
type StoredEvent = [string, number, number, number, string];

const idOf = (message: bigint) => message.toString(16);
const parseId = (text: string) => BigInt(`0x${text}`);

/** 64-bit numbers as Base64 of their bytes, little-endian as on every machine that Node runs on. */
const writeIdentities = ({ buffer, byteOffset, byteLength }: BigUint64Array) =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64');

function readIdentities(text: string): BigUint64Array {
  // A copy, because a small Buffer may begin where 64-bit numbers can't.
  return new BigUint64Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer);
}

interface MemoryOptions {
  readonly destination: DestinationOption;
  readonly maxDestinations: number;
}

/** Memory from its rows. */
export function restoreMemory(
  rows: ReadonlyMap<string, string>,
  { destination: option, maxDestinations }: MemoryOptions,
): Memory {
  const destinations = new Map<string, { heard: number; tally: DestinationTally }>();
  const open: [bigint, OpenMessage][] = [];
  const chunks: [number, Chunk][] = [];
  const minutes: Memory['minutes'] = new Map();
  for (const [key, value] of rows) {
    const [, kind = '', name = ''] = /^(\w+)\/?(.*)$/s.exec(key) ?? [];
    if (kind === 'destination' && name.startsWith(`${option}/`)) {
      const { heard, ...tally } = JSON.parse(value);
      destinations.set(name.slice(option.length + 1), { heard, tally: { ...createDestinationTally(), ...tally } });
    } else if (kind === 'open') {
      const [createdAt, dueAt, activeAt, attempts, overdue, destination] = JSON.parse(value) as StoredOpen;
      const state = { createdAt: createdAt ?? undefined, dueAt, activeAt: activeAt ?? undefined };
      open.push([parseId(name), { ...state, attempts, overdue: overdue === 1, destination, isStored: true }]);
    } else if (kind === 'chunk') {
      const events = (JSON.parse(value) as StoredEvent[]).map(([message, state, time, dueAt, destination]) => ({
        message: parseId(message),
        state,
        time,
        dueAt,
        destination,
      }));
      chunks.push([Number(name), { events, last: events.reduce((last, { time }) => Math.max(last, time), 0) }]);
    } else if (kind === 'minute') minutes.set(Number(name), readIdentities(value));
  }
  const checkpoint: Checkpoint | undefined = rows.has('checkpoint')
    ? JSON.parse(rows.get('checkpoint') as string)
    : undefined;
  const events = chunks.flatMap(([, { events }]) => events);
  const judgedTo = checkpoint?.judgedTo ?? 0;
  const endings = ['delivered', 'failed', 'cancelled'].map(state => EVENT_STATES.indexOf(state as never));
  return {
    checkpoint,
    log: { ...createLogTally(), ...JSON.parse(rows.get('log') ?? '{}') },
    destinations: createDestinations(option, maxDestinations, destinations),
    destinationOf: destinationReader(option),
    // As they were opened: the oldest is the first to be forgotten.
    open: new Map(open.sort(([, a], [, b]) => (a.createdAt ?? 0) - (b.createdAt ?? 0))),
    chunks: new Map(chunks.sort(([a], [b]) => a - b)),
    seen: new Set(events.map(identityOf)),
    unjudged: events.filter(({ time }) => time > judgedTo),
    ended: new Map(
      events
        .filter(({ time, state }) => time <= judgedTo && endings.includes(state))
        .map(({ message, time }) => [message, time]),
    ),
    minutes,
    recent: undefined,
    silenceUntil: 0,
    answersWithoutStart: 0,
    savedAt: Number.NEGATIVE_INFINITY,
    touched: new Set(),
  };
}

/** The row of a key as it is now; null for what is gone. */
function rowOf(memory: Memory, key: string): string | null {
  const [, kind = '', name = ''] = /^(\w+)\/?(.*)$/s.exec(key) ?? [];
  if (kind === 'checkpoint') return JSON.stringify(memory.checkpoint);
  if (kind === 'log') return JSON.stringify(memory.log);
  if (kind === 'destination') {
    const destination = name.slice(name.indexOf('/') + 1);
    return JSON.stringify({ ...memory.destinations.tally(destination), heard: memory.destinations.heard(destination) });
  }
  if (kind === 'chunk') {
    const chunk = memory.chunks.get(Number(name));
    const stored = ({ message, state, time, dueAt, destination }: KeptEvent): StoredEvent => [
      idOf(message),
      state,
      time,
      dueAt,
      destination,
    ];
    return chunk ? JSON.stringify(chunk.events.map(stored)) : null;
  }
  if (kind === 'minute') {
    const minute = memory.minutes.get(Number(name));
    return minute ? writeIdentities(minute) : null;
  }
  const open = memory.open.get(parseId(name));
  if (!open) return null;
  open.isStored = true;
  const { createdAt = null, dueAt, activeAt = null, attempts, overdue, destination } = open;
  const stored: StoredOpen = [createdAt, dueAt, activeAt, attempts, overdue ? 1 : 0, destination];
  return JSON.stringify(stored);
}

/** The rows that were touched since the last call, as they are now. */
export function takeChanges(memory: Memory): Row[] {
  const changes = [...memory.touched].map(key => ({ key, value: rowOf(memory, key) }));
  memory.touched.clear();
  return changes;
}

export function touchOpen({ touched }: Memory, message: bigint): void {
  touched.add(`open/${idOf(message)}`);
}

/** Forgets a message. */
export function close(memory: Memory, message: bigint, open: OpenMessage): void {
  memory.open.delete(message);
  const key = `open/${idOf(message)}`;
  // Most begin and end between two commits, and never have a row.
  if (open.isStored) memory.touched.add(key);
  else memory.touched.delete(key);
}

/** Adds to what the sweep compares with. */
export function addToMinutes({ minutes, touched }: Memory, events: readonly KeptEvent[]): void {
  for (const [minute, added] of Map.groupBy(events, ({ time }) => Math.floor(time / MINUTE))) {
    const before = minutes.get(minute) ?? new BigUint64Array();
    const all = new BigUint64Array(before.length + added.length);
    all.set(before);
    all.set(added.map(identityOf), before.length);
    minutes.set(minute, all);
    touched.add(`minute/${minute}`);
  }
}

/** Forgets the minutes until `time`: the sweep has been there. */
export function forgetMinutes({ minutes, touched }: Memory, time: number): void {
  for (const minute of minutes.keys()) {
    if ((minute + 1) * MINUTE - 1 > time) continue;
    minutes.delete(minute);
    touched.add(`minute/${minute}`);
  }
}

/** Remembers events that are new, and forgets those that will not be read again. */
export function remember(memory: Memory, events: readonly KeptEvent[]): void {
  const { checkpoint, chunks, seen, touched, ended } = memory;
  if (!checkpoint) return;
  if (events.length > 0) {
    const id = checkpoint.nextChunk;
    checkpoint.nextChunk += 1;
    chunks.set(id, { events, last: events.reduce((last, { time }) => Math.max(last, time), 0) });
    touched.add(`chunk/${id}`);
  }
  for (const [id, chunk] of chunks) {
    const isTooMuch = seen.size > MOST_REMEMBERED && chunks.size > 1;
    if (chunk.last >= checkpoint.rememberedFrom && !isTooMuch) continue;
    checkpoint.rememberedFrom = Math.max(checkpoint.rememberedFrom, chunk.last + 1);
    chunks.delete(id);
    // Of a backlog, most ranges are behind as soon as they are read.
    if (!touched.delete(`chunk/${id}`)) touched.add(`chunk/${id}`);
    for (const event of chunk.events) seen.delete(identityOf(event));
  }
  for (const [message, time] of ended) if (time < checkpoint.rememberedFrom) ended.delete(message);
}

/** Identities that are remembered at most; beyond that the overlap of reads becomes shorter. */
const MOST_REMEMBERED = 1_000_000;
