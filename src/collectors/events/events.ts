import { z } from 'zod';
import { Duration, MINUTE } from '../../kit/duration.ts';
import { intOption } from '../../kit/option.ts';
import {
  AGENT_TIME,
  type Collector,
  defineKind,
  type Observation,
  type ObserveContext,
  PAGES_A_STEP,
  type ServiceTime,
} from '../collector.ts';
import { NO_ROUTES, type Routes } from '../routes.ts';
import { DESTINATIONS } from './destinations.ts';
import { type EventsFacts, eventFamilies } from './families.ts';
import { isEnding, isResult } from './kept-event.ts';
import { addResult, follow, type Limits, MAX_OPEN, settleRedeliveries } from './lifecycle.ts';
import { countByDestination, dropMinutes, type Memory } from './memory.ts';
import { type RangeRead, readMore, startRange } from './read.ts';
import { drainChanges, restoreMemory } from './rows.ts';
import type { Schedule } from './schedule-options.ts';
import { foldTail, readFirst, readTail, type TailWalk } from './tail.ts';
import type { TraceOptions } from './traces.ts';

/** Maximum length of a range (minutes). */
const MAX_MINUTES = 5;
/** Number of known events at which a range is no longer extended. */
const MANY = 50_000;

/**
 * Returns the next range older than `lateSweep` and outside the overlap of other reads, or undefined. A range ends at the end of
 * a minute. In a quiet log, the last range ends where the tail starts, because no other read includes the rest of the minute.
 */
function nextRange(
  { checkpoint, minutes }: Memory,
  now: number,
  lateSweep: number,
): { from: number; to: number } | undefined {
  if (!checkpoint) return undefined;
  const from = checkpoint.sweptTo + 1;
  let end = Math.floor(from / MINUTE) + 1;
  let events = minutes.get(end - 1)?.length ?? 0;
  while (end < from / MINUTE + MAX_MINUTES && events < MANY) {
    events += minutes.get(end)?.length ?? 0;
    end += 1;
  }
  // The range must be older than `lateSweep` by the log's timestamps, too: the service's time may be wrong.
  const settled = (checkpoint.newest ?? 0) + Math.max(0, now - checkpoint.foundAt);
  const limit = Math.min(Math.min(now, settled) - lateSweep, checkpoint.dedupeFrom - 1, end * MINUTE - 1);
  const wholeMinutes = Math.floor((limit + 1) / MINUTE) * MINUTE - 1;
  const to = limit === checkpoint.dedupeFrom - 1 ? limit : wholeMinutes;
  return to >= from ? { from, to } : undefined;
}

export function foldSweep(memory: Memory, range: RangeRead, limits: Limits): void {
  const { checkpoint, log, minutes, touched } = memory;
  if (!checkpoint) return;
  const known = new Set<bigint>();
  for (let minute = Math.floor(range.from / MINUTE); minute * MINUTE <= range.to; minute += 1) {
    for (const identity of minutes.get(minute) ?? []) known.add(identity);
  }
  for (const event of range.events.values()) {
    const { identity } = event;
    // Minutes that were dropped during the read of this range have no identities to compare with.
    if (known.has(identity) || event.time <= checkpoint.sweptTo) continue;
    countByDestination(memory, event);
    log.late += 1;
    touched.add('log');
    const listed = range.rows?.get(identity);
    if (listed) memory.traces?.add(event, listed, true);
    // Lifecycles have advanced past this event, so it can only add a missing result or end to them.
    if (isResult(event.state)) addResult(memory, event);
    if (isEnding(event.state)) follow(memory, event, limits, false);
    else if (event.schedules) memory.schedules.follow(event, undefined);
  }
  checkpoint.sweptTo = Math.max(checkpoint.sweptTo, range.to);
  settleRedeliveries(memory);
  touched.add('checkpoint');
  dropMinutes(memory, range.to);
}

const options = z.strictObject({
  enabled: z.boolean().default(true).describe('Whether the agent reads the event log.'),
  every: Duration.prefault('15s').describe(
    'Interval between reads. A read takes one request per 1,000 new events. A busy log takes one additional request per minute.',
  ),
  window: Duration.prefault('5m').describe('Length of the window of `delivery_events_recent`.'),
  overlap: Duration.prefault('60s').describe(
    'How late an event may appear in the log and still be processed in order. Metrics about messages lag behind the newest event by this time.',
  ),
  lateSweep: Duration.prefault('30m').describe(
    'How late an event may appear in the log and still be counted. Each minute of the log is read again when it has this age.',
  ),
  destination: z
    .enum(DESTINATIONS, { error: `must be one of ${DESTINATIONS.join(', ')}` })
    .default('none')
    .describe('Source of the label `destination`. `none` omits the label. `route` requires `collect.routes`.'),
  maxDestinations: intOption({ min: 1, max: 10_000, otherwise: 100 }).describe(
    'Maximum number of destinations with separate series. `__other__` is the sum of all other destinations.',
  ),
  destinationHistograms: z
    .boolean()
    .default(false)
    .describe('Whether the histograms of queue wait and time to deliver also have the label `destination`.'),
});

export type EventsOptions = z.output<typeof options>;

export interface EventsServices {
  /** Time from the due time of an open message until the message is overdue (ms). */
  readonly onTimeWithin?: number | undefined;
  readonly schedules?: readonly Schedule[] | undefined;
  readonly routes?: Routes | undefined;
  readonly traces?: TraceOptions | undefined;
  readonly maxOpen?: number | undefined;
  readonly serviceClock?: ServiceTime | undefined;
}

/** `sweep` is undefined between two ranges. */
type Walk = { readonly tail: TailWalk } | { readonly sweep: RangeRead | undefined };

export const events = defineKind({
  name: 'events',
  title: 'Events',
  configKey: 'events',
  options,
  families: eventFamilies,
  rounds: ({ every, overlap, lateSweep }: EventsOptions) => ({
    tail: {
      every,
      requests: 1,
      why: 'reads pages of 1,000 events; while the log is busy, one more call a minute rereads the events that became older than `overlap`',
      priority: 'events',
    },
    ...(lateSweep > overlap && {
      sweep: {
        every: Math.max(60_000, lateSweep / 6),
        requests: 1,
        why: 'reads each minute of the log again, in pages of 1,000, to find delayed events',
        priority: 'background',
      },
    }),
  }),
  auxiliary: ['sweep'],
  create: createEvents,
});

type Context = ObserveContext<Memory, Walk>;
type Observed = Promise<Observation<EventsFacts, Memory, Walk>>;

function factsOf(memory: Memory, { window, destination, destinationHistograms }: EventsOptions): EventsFacts {
  const { gauges, checkpoint, log, destinations, schedules, queues } = memory;
  const counters = destination !== 'none';
  return {
    gauges,
    windowMs: window,
    since: checkpoint?.floor,
    log: structuredClone(log),
    destinations: destinations.copies(),
    schedules: schedules.facts(),
    doubleStarts: schedules.doubleStarts(),
    beyondCap: destinations.beyond,
    queues: { from: queues.from, deliveries: new Map(queues.deliveries) },
    labelled: { counters, histograms: counters && destinationHistograms },
  };
}

export function createEvents(
  options: EventsOptions,
  {
    onTimeWithin = 300_000,
    routes = NO_ROUTES,
    schedules,
    traces,
    maxOpen = MAX_OPEN,
    serviceClock = AGENT_TIME,
  }: EventsServices = {},
): Collector<EventsFacts, Memory, Walk> {
  const limits = { ...options, maxOpen, onTimeWithin };
  const tailOptions = { ...limits, isSwept: options.lateSweep > options.overlap };
  const recall = (memory: Memory) => factsOf(memory, options);
  const folded = (memory: Memory) => ({
    memory,
    facts: recall(memory),
    changes: drainChanges(memory),
    onCommitted: () => memory.traces?.send(),
  });

  async function observeTail(context: Context): Observed {
    const { memory, walk } = context;
    const { tail, range } =
      walk && 'tail' in walk
        ? { tail: walk.tail, range: await readTail(walk.tail, memory) }
        : await readFirst(context, tailOptions, serviceClock);
    const isLast = range !== undefined && range.to >= tail.end;
    return {
      fold(memory) {
        if (!range) return { memory, facts: undefined, changes: [] };
        foldTail(memory, tail, range, tailOptions);
        return folded(memory);
      },
      isPartial: range?.isPartial ?? false,
      more: isLast ? undefined : { tail },
    };
  }

  async function observeSweep({ api, now, memory, walk, signal }: Context): Observed {
    const next = nextRange(memory, serviceClock.at(now), options.lateSweep);
    const current = walk && 'sweep' in walk ? walk.sweep : undefined;
    const range = current ?? (next && startRange(api, next.from, next.to, memory.traces !== undefined, signal));
    const isRead = range ? await readMore(range, PAGES_A_STEP, memory) : false;
    return {
      fold(memory) {
        if (range && isRead) foldSweep(memory, range, limits);
        return folded(memory);
      },
      isPartial: range?.isPartial ?? false,
      more: range && { sweep: isRead ? undefined : range },
      idle: range || walk ? undefined : memory.checkpoint ? 'not_due' : 'waiting',
    };
  }

  return {
    ...events,
    rounds: events.rounds(options),
    restore: rows => restoreMemory(rows, options, { traces, routes, schedules }),
    recall,
    observe: context => (context.round === 'sweep' ? observeSweep(context) : observeTail(context)),
  };
}
