import type { Reader } from '../../upstream/api.ts';
import { NO_ROUTES } from '../routes.ts';
import type { EventsOptions } from './event-options.ts';
import { type EventsFacts, type EventsServices, factsOf } from './events.ts';
import { byTime, type KeptEvent } from './kept-event.ts';
import type { Memory } from './memory.ts';
import { startRange } from './read.ts';
import { planReadBack } from './read-back.ts';
import { createRecent } from './recent.ts';
import { restoreMemory } from './rows.ts';
import { type FoundRange, foldTail, type LogWalk, readTail } from './tail.ts';

/** Times: milliseconds since the Unix epoch. */
export interface ReliveRange {
  /** When the agent begins, with an empty store. */
  readonly from: number;
  readonly to: number;
  /** Milliseconds between two steps. */
  readonly step: number;
}

/** What a running agent would have shown at `at`. */
export interface ReliveStep {
  readonly at: number;
  /** Good until the next step, with which its counts change. */
  readonly facts: EventsFacts;
  /** No row was unreadable in what was read of the log with this step. */
  readonly isWhole: boolean;
}

/** A part of the log, which follows on the one before. */
export interface LogPart {
  /** Until here it is read. */
  readonly readTo: number;
  /** Each event once, in any order. */
  readonly events: readonly KeptEvent[];
  /** Rows that could not be read. */
  readonly rejected: number;
}

type Services = Omit<EventsServices, 'backfill' | 'traces'>;

const memoryOf = (options: EventsOptions, { routes = NO_ROUTES, schedules }: Services) =>
  restoreMemory(new Map(), options, { routes, schedules });

/** Reads a range of the log, and what an agent that begins at `from` reads of before, part by part. Throws what the reader throws. */
export async function* readLog(
  api: Reader,
  options: EventsOptions,
  services: Services,
  { from, to }: Pick<ReliveRange, 'from' | 'to'>,
  signal: AbortSignal,
): AsyncGenerator<LogPart> {
  const reading = memoryOf(options, services);
  const start = Math.max(0, from - options.window);
  const range = startRange(api, start, to, false, signal);
  const walk: LogWalk = { until: to, readBack: WHOLE, range, span: Number.POSITIVE_INFINITY };
  for (let readTo = start - 1; readTo < to; ) {
    const range = await readTail(api, walk, reading, signal);
    signal.throwIfAborted();
    if (!range) continue;
    readTo = range.to;
    yield { readTo, events: range.events.values(), rejected: range.rejected };
  }
}

const WHOLE = { skip: undefined, settles: true } as const;

/**
 * Goes through a range of the log as an agent would have that read it every `options.every` while it was written, and found each
 * event as soon as it happened: the tail's own folding, read by read. Where a replay tells what was true at a time, this tells what
 * was known then: what became of messages only when the log could be late for that no more. To be given all parts, in order.
 */
export function createReliving(
  options: EventsOptions,
  services: Services,
  { from, to, step }: ReliveRange,
): (part: LogPart) => Generator<ReliveStep> {
  const memory = memoryOf(options, services);
  const tail = createTail(memory, options, services.onTimeWithin ?? 300_000);
  let [at, nextRead, waiting]: [number, number, KeptEvent[]] = [from, from, []];
  let facts = factsOf(memory, options);
  return function* goOn({ readTo, events, rejected }) {
    const sorted = [...waiting, ...events.toSorted(byTime)];
    let index = 0;
    for (; at <= Math.min(readTo, to); at += step) {
      if (at >= nextRead) {
        const first = index;
        while (index < sorted.length && (sorted[index] as KeptEvent).time <= at) index += 1;
        tail(at, sorted.slice(first, index));
        facts = factsOf(memory, options, true);
        nextRead = at + options.every;
      }
      yield { at, facts, isWhole: rejected === 0 };
    }
    waiting = sorted.slice(index);
  };
}

/** Gives what folds one read of the log at `at`, which listed these, in order, besides what it had listed before. */
function createTail(memory: Memory, options: EventsOptions, onTimeWithin: number) {
  const limits = { ...options, most: options.maxOpenMessages, onTimeWithin };
  // What is late would be found by a sweep; here nothing is.
  const tailOptions = { ...limits, backfill: 0, isSwept: false };
  let readTo: number | undefined;
  return (at: number, events: readonly KeptEvent[]): void => {
    const range: FoundRange = {
      from: readTo === undefined ? at - options.window : readTo + 1,
      to: at,
      events: { size: events.length, values: () => events },
      rows: undefined,
      twice: [],
      rejected: 0,
    };
    const walk = {
      until: at,
      readBack: planReadBack(memory, at, options.overlap),
      newest: memory.checkpoint?.newest,
      span: memory.span,
      refill: memory.recent ? undefined : createRecent(),
      // It never was away.
      before: undefined,
      foundNew: false,
    };
    foldTail(memory, walk, range, tailOptions);
    readTo = at;
    // Nothing is stored.
    memory.touched.clear();
    memory.touchedOpen.clear();
  };
}
