import { z } from 'zod';
import { Duration } from '../../kit/duration.ts';
import { counter, gauge, type HistogramState, histogram, histogramSamples } from '../../metrics/family.ts';
import { EVENT_STATES, OUTCOMES } from '../../model/message.ts';
import { seriesDropped } from '../cap.ts';
import { type Collector, defineKind, type Observation, type ObserveContext, PAGES_A_STEP } from '../collector.ts';
import { DESTINATIONS } from './destinations.ts';
import type { Gauges, Memory } from './memory.ts';
import { type RangeRead, readOn, startRange } from './read.ts';
import { restoreMemory, takeChanges } from './rows.ts';
import { foldSweep, nextRange } from './sweep.ts';
import { foldTail, readTail, startTail, type TailWalk } from './tail.ts';
import { BOUNDS, type DestinationTally, type LogTally, RESULTS, UNTRACKED } from './tally.ts';
import type { TraceOptions } from './traces.ts';

const options = z.strictObject({
  enabled: z.boolean().default(true).describe('Read the event log.'),
  every: Duration.prefault('15s').describe('Time between two reads of the event log: a call per 1,000 new events.'),
  window: Duration.prefault('5m').describe('How far back `delivery_events_recent` counts.'),
  overlap: Duration.prefault('60s').describe(
    'How late an event may come into the log and be counted at once. So much is read again each time; lives of messages are followed so far behind.',
  ),
  lateSweep: Duration.prefault('30m').describe(
    'How late an event may come into the log and still be counted: when it is so old, each minute is read once more.',
  ),
  destination: z
    .enum(DESTINATIONS, { error: `must be one of ${DESTINATIONS.join(', ')}` })
    .default('none')
    .describe('What the label `destination` is made from, if anything.'),
  maxDestinations: z
    .int()
    .min(1)
    .max(10_000)
    .default(100)
    .describe('Destinations with series of their own at a time; the others are counted as `__other__`.'),
  destinationHistograms: z.boolean().default(false).describe('Whether the histograms of waits have that label, too.'),
  maxOpenMessages: z
    .int()
    .min(1)
    .max(10_000_000)
    .default(100_000)
    .describe('Messages whose lives are followed at a time; beyond it the oldest are given up, and counted.'),
});

export type EventsOptions = z.output<typeof options>;

export interface EventsServices {
  /** Milliseconds of history to read at the very first start. */
  readonly backfill?: number | undefined;
  /** Undefined where messages are not traced. */
  readonly traces?: TraceOptions | undefined;
}

/** What is shown of one account's event log. Never changed once made. */
export interface EventsFacts {
  /** As of the last complete read; undefined before the first of this process. */
  readonly gauges: Gauges | undefined;
  readonly windowMs: number;
  readonly log: LogTally;
  readonly destinations: ReadonlyMap<string, DestinationTally>;
  /** Destinations that were met beyond the cap. */
  readonly beyondCap: number;
  /** Whether destinations are a label, of counters and of the histograms of waits. */
  readonly labelled: { readonly counters: boolean; readonly histograms: boolean };
}

/** `sweep` is undefined between two ranges. */
type Walk = { readonly tail: TailWalk } | { readonly sweep: RangeRead | undefined };

const BEHIND = 'Followed through the log in the background, events.overlap behind its newest event.';

/** The event log as counters of every event, the lives of messages, and recent states. */
export const events = defineKind({
  name: 'events',
  configKey: 'events',
  options,
  families: {
    recent: gauge(
      'delivery_events_recent',
      'Events by state whose time lies in the last delivery_events_window_seconds before the last complete read of the log in the background, exact while they are not more than some 100,000. The log may be late; unknown is any state not listed here.',
      ['state'],
    ),
    window: gauge(
      'delivery_events_window_seconds',
      'Length of the window that delivery_events_recent counts, as configured.',
    ),
    newest: gauge(
      'delivery_event_log_newest_timestamp_seconds',
      'Time of the newest event ever seen in the log by reads in the background. No events is not the same as healthy: compare with the time now.',
    ),
    total: counter(
      'delivery_events_total',
      'Events by state, each counted once, from the first start of the agent on and across restarts; read in the background. What comes into the log later than events.lateSweep is not counted, nor what is late among more than two million events of that time.',
      ['state', 'destination'],
    ),
    finished: counter('delivery_messages_finished_total', `Messages that ended, each once, by how. ${BEHIND}`, [
      'outcome',
      'destination',
    ]),
    timeToDeliver: histogram(
      'delivery_message_time_to_deliver_seconds',
      `Time from when a message was due (created, or later where its first event says so) until it was delivered, retries included. Only delivered messages whose creation is known. ${BEHIND}`,
      ['destination'],
    ),
    queueWait: histogram(
      'delivery_message_queue_wait_seconds',
      `Time from when a message was due until its first attempt began. Only messages whose creation is known. ${BEHIND}`,
      ['destination'],
    ),
    attempt: histogram(
      'delivery_attempt_duration_seconds',
      `Time from the beginning of an attempt until its answer: success, or error. ${BEHIND}`,
      ['result'],
    ),
    attempts: histogram(
      'delivery_message_attempts',
      `Attempts of messages when they ended, by how they did. Only messages whose creation is known. ${BEHIND}`,
      ['outcome'],
    ),
    inFlight: gauge(
      'delivery_messages_in_flight',
      'Messages that were created and have not ended, at the last complete read of the log in the background. Those created before the log was read are left out.',
    ),
    oldestInFlight: gauge(
      'delivery_oldest_in_flight_timestamp_seconds',
      'Creation time of the oldest message in flight, at the last complete read of the log in the background. Absent when there is none.',
    ),
    overdue: counter(
      'delivery_messages_overdue_total',
      `Messages that had not ended 300 seconds after they were due, each counted once and as soon as they are. ${BEHIND}`,
    ),
    untracked: counter(
      'delivery_messages_untracked_total',
      `Messages whose lives could not be followed: unknown_start ended without their creation being known, evicted were given up beyond events.maxOpenMessages or after 14 days. ${BEHIND}`,
      ['reason'],
    ),
    gaps: counter(
      'delivery_event_log_gaps_total',
      'Times the log read in the background had a hole, so that events are missing in the counters: it keeps less than the agent was down for, or went silent and then answered attempts that it never showed beginning.',
    ),
    late: counter(
      'delivery_event_log_late_total',
      'Events that came into the log later than events.overlap, found in the background; most by the sweep. They are in delivery_events_total; of their messages only the end is followed.',
    ),
    duplicates: counter(
      'delivery_event_log_duplicates_total',
      'Rows that the log listed twice within one read in the background. They are not counted twice.',
    ),
    seriesDropped,
  },
  rounds: ({ every, overlap, lateSweep }: EventsOptions) => ({
    tail: { every, requests: 1, priority: 'events' },
    ...(lateSweep > overlap && {
      sweep: { every: Math.max(60_000, lateSweep / 6), requests: 1, priority: 'background' },
    }),
  }),
  auxiliary: ['sweep'],
  create: createEvents,
  samples({ gauges, windowMs, log, destinations, labelled, beyondCap }: EventsFacts) {
    const one = (value: number) => [{ labels: {}, value }];
    const time = (ms: number | undefined) => (ms === undefined ? [] : one(ms / 1000));
    const named = (destination: string) => (labelled.counters ? destination : undefined);
    const tallies = [...destinations];
    const waits = (wait: 'timeToDeliver' | 'queueWait') => {
      const series: [string | undefined, HistogramState][] = labelled.histograms
        ? tallies.map(([destination, tally]) => [destination, tally[wait]])
        : [[undefined, log[wait]]];
      return series.flatMap(([destination, state]) => histogramSamples({ destination }, BOUNDS[wait], state));
    };
    return {
      recent: gauges ? EVENT_STATES.map(state => ({ labels: { state }, value: gauges.recent[state] })) : [],
      window: one(windowMs / 1000),
      newest: time(gauges?.newest),
      total: tallies.flatMap(([destination, { events }]) =>
        EVENT_STATES.map(state => ({ labels: { state, destination: named(destination) }, value: events[state] })),
      ),
      finished: tallies.flatMap(([destination, { finished }]) =>
        OUTCOMES.map(outcome => ({ labels: { outcome, destination: named(destination) }, value: finished[outcome] })),
      ),
      timeToDeliver: waits('timeToDeliver'),
      queueWait: waits('queueWait'),
      attempt: RESULTS.flatMap(result => histogramSamples({ result }, BOUNDS.attempt, log.attempt[result])),
      attempts: OUTCOMES.flatMap(outcome => histogramSamples({ outcome }, BOUNDS.attempts, log.attempts[outcome])),
      inFlight: gauges ? one(gauges.inFlight) : [],
      oldestInFlight: time(gauges?.oldestInFlight),
      overdue: one(log.overdue),
      untracked: UNTRACKED.map(reason => ({ labels: { reason }, value: log.untracked[reason] })),
      gaps: one(log.gaps),
      late: one(log.late),
      duplicates: one(log.duplicates),
      seriesDropped: labelled.counters ? [{ labels: { family: 'delivery_events_total' }, value: beyondCap }] : [],
    };
  },
});

type Context = ObserveContext<Memory, Walk>;
type Observed = Promise<Observation<EventsFacts, Memory, Walk>>;

export function createEvents(
  options: EventsOptions,
  { backfill = 0, traces }: EventsServices = {},
): Collector<EventsFacts, Memory, Walk> {
  const limits = { ...options, most: options.maxOpenMessages };
  const tailOptions = { ...limits, backfill, isSwept: options.lateSweep > options.overlap };
  const counters = options.destination !== 'none';
  const labelled = { counters, histograms: counters && options.destinationHistograms };
  const recall = ({ gauges, log, destinations }: Memory): EventsFacts => ({
    gauges,
    windowMs: options.window,
    log: structuredClone(log),
    destinations: destinations.copies(),
    beyondCap: destinations.beyond,
    labelled,
  });

  async function observeTail({ api, now, memory, walk, signal }: Context): Observed {
    const tail = walk && 'tail' in walk ? walk.tail : startTail(api, memory, now, tailOptions, signal);
    const range = await readTail(api, tail, memory.destinationOf, signal);
    const isLast = range !== undefined && range.to >= tail.until;
    return {
      fold(memory) {
        if (!range) return { memory, facts: undefined, changes: [] };
        foldTail(memory, tail, range, tailOptions);
        return { memory, facts: recall(memory), changes: takeChanges(memory) };
      },
      isPartial: range !== undefined && range.rejected > 0,
      more: isLast ? undefined : { tail },
    };
  }

  async function observeSweep({ api, now, memory, walk, signal }: Context): Observed {
    const next = nextRange(memory, now, options.lateSweep);
    const underWay = walk && 'sweep' in walk ? walk.sweep : undefined;
    const range = underWay ?? (next && startRange(api, next.from, next.to, memory.traces !== undefined, signal));
    const isRead = range ? await readOn(range, PAGES_A_STEP, memory.destinationOf) : false;
    return {
      fold(memory) {
        if (range && isRead) foldSweep(memory, range, limits);
        return { memory, facts: recall(memory), changes: takeChanges(memory) };
      },
      isPartial: range !== undefined && range.rejected > 0,
      more: range && { sweep: isRead ? undefined : range },
      idle: range || walk ? undefined : memory.checkpoint ? 'not_due' : 'waiting',
    };
  }

  return {
    ...events,
    rounds: events.rounds(options),
    restore: rows => restoreMemory(rows, options, traces),
    recall,
    observe: context => (context.round === 'sweep' ? observeSweep(context) : observeTail(context)),
  };
}
