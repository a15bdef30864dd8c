import { z } from 'zod';
import { Duration } from '../../kit/duration.ts';
import { recordOf } from '../../kit/record.ts';
import { counter, gauge, type HistogramState, histogram, histogramSamples } from '../../metrics/family.ts';
import { EVENT_STATES, MESSAGE_OUTCOMES } from '../../model/message.ts';
import { seriesDropped } from '../cap.ts';
import {
  type Collector,
  defineKind,
  type Observation,
  type ObserveContext,
  optionalSample,
  PAGES_A_STEP,
  toSeconds,
} from '../collector.ts';
import { NO_ROUTES, type Routes } from '../routes.ts';
import { AGENT_TIME, type ServiceTime } from '../service-time.ts';
import { DESTINATIONS } from './destinations.ts';
import { MAX_OPEN } from './lifecycle.ts';
import type { Gauges, Memory } from './memory.ts';
import { type RangeRead, readMore, startRange } from './read.ts';
import { readingPerDay } from './read-back.ts';
import { drainChanges, restoreMemory } from './rows.ts';
import type { Schedule } from './schedule-options.ts';
import { type ScheduleFacts, scheduleFamilies, scheduleSamples } from './schedules.ts';
import { foldSweep, nextRange } from './sweep.ts';
import { foldTail, readFirst, readTail, type TailWalk } from './tail.ts';
import {
  BUCKET_BOUNDS,
  DELIVERY_RESULTS,
  type DestinationTally,
  type LogTally,
  STATUS_CLASSES,
  type StatusClass,
  UNTRACKED,
} from './tally.ts';
import type { TraceOptions } from './traces.ts';

const options = z.strictObject({
  enabled: z.boolean().default(true).describe('Whether the event log is read.'),
  every: Duration.prefault('15s').describe(
    'Interval between reads, at one request per 1,000 new events, and one more a minute if the log is busy.',
  ),
  window: Duration.prefault('5m').describe('Window of `delivery_events_recent`.'),
  overlap: Duration.prefault('60s').describe(
    'Maximum delay of an event that is still processed in order. Message lifecycles are computed this far behind the newest event.',
  ),
  lateSweep: Duration.prefault('30m').describe(
    'Maximum delay of an event that is still counted. Each minute of the log is read again at this age.',
  ),
  destination: z
    .enum(DESTINATIONS, { error: `must be one of ${DESTINATIONS.join(', ')}` })
    .default('none')
    .describe('Source of the label `destination`. `none` omits the label, `route` needs `collect.routes`.'),
  maxDestinations: z
    .int()
    .min(1)
    .max(10_000)
    .default(100)
    .describe('Maximum number of destinations with their own series. `__other__` is the sum of the others.'),
  destinationHistograms: z
    .boolean()
    .default(false)
    .describe('Whether the histograms of time to deliver and queue wait have the label `destination`, too.'),
});

export type EventsOptions = z.output<typeof options>;

export interface EventsServices {
  /** Time past its due time after which an open message is overdue (ms). */
  readonly onTimeWithin?: number | undefined;
  readonly schedules?: readonly Schedule[] | undefined;
  readonly routes?: Routes | undefined;
  readonly traces?: TraceOptions | undefined;
  readonly maxOpen?: number | undefined;
  readonly serviceClock?: ServiceTime | undefined;
}

/** Facts about one account's event log. */
export interface EventsFacts {
  readonly gauges: Gauges | undefined;
  readonly windowMs: number;
  /** Start of the event counters (ms since the Unix epoch); undefined before the very first read. */
  readonly since: number | undefined;
  readonly log: LogTally;
  readonly destinations: ReadonlyMap<string, DestinationTally>;
  readonly schedules: ReadonlyMap<string, ScheduleFacts>;
  readonly beyondCap: number;
  readonly labelled: { readonly counters: boolean; readonly histograms: boolean };
}

/** `sweep` is undefined between two ranges. */
type Walk = { readonly tail: TailWalk } | { readonly sweep: RangeRead | undefined };

/** Attempt series exposed from the start. Others appear with their first attempt. */
const EXPECTED: Readonly<Record<(typeof DELIVERY_RESULTS)[number], readonly StatusClass[]>> = {
  success: ['none', '2xx'],
  error: ['none', '3xx', '4xx', '5xx'],
};

export const shownResponses = ({ answers }: Pick<DestinationTally, 'answers'>) =>
  DELIVERY_RESULTS.flatMap(result =>
    STATUS_CLASSES.filter(each => EXPECTED[result].includes(each) || answers[result][each] > 0).map(statusClass => ({
      result,
      statusClass,
      count: answers[result][statusClass],
    })),
  );

interface ShownHistogram {
  readonly destination: string | undefined;
  readonly state: HistogramState;
}

/** Returns the histograms of a waiting time: one per destination, or one for the whole log. */
export const shownWaits = (
  { labelled, log, destinations }: Pick<EventsFacts, 'labelled' | 'log' | 'destinations'>,
  wait: 'timeToDeliver' | 'queueWait',
): ShownHistogram[] =>
  labelled.histograms
    ? [...destinations].map(([destination, tally]) => ({ destination, state: tally[wait] }))
    : [{ destination: undefined, state: log[wait] }];

/** Returns the counts of all destinations together; undefined before the first committed read. */
export function eventTotals(facts: Pick<EventsFacts, 'destinations'> | undefined) {
  if (!facts) return undefined;
  const tallies = [...facts.destinations.values()];
  const total = (count: (tally: DestinationTally) => number) => tallies.reduce((sum, tally) => sum + count(tally), 0);
  return {
    states: recordOf(EVENT_STATES, state => total(({ events }) => events[state])),
    finished: recordOf(MESSAGE_OUTCOMES, outcome => total(({ finished }) => finished[outcome])),
  };
}

export const events = defineKind({
  name: 'events',
  title: 'Events',
  configKey: 'events',
  options,
  families: {
    recent: gauge('delivery_events_recent', 'Events of the last events.window by state. unknown: all other states.', [
      'state',
    ]),
    newest: gauge(
      'delivery_event_log_newest_timestamp_seconds',
      'Time of the newest event. A log without new events does not prove health: compare this time with the current time.',
    ),
    lag: gauge(
      'delivery_event_log_lag_seconds',
      'Time from an event to the last read that did not list it yet: the maximum of the last 10 to 20 minutes with new events. 0 if the first read after each event listed it.',
    ),
    since: gauge(
      'delivery_event_log_since_timestamp_seconds',
      'Time of the first read, kept across restarts. Earlier events are not counted. Never withdrawn.',
    ),
    total: counter(
      'delivery_events_total',
      'Events by state. Events delayed by more than events.lateSweep are not counted.',
      ['state', 'destination'],
    ),
    finished: counter('delivery_messages_finished_total', 'Ended messages by outcome.', ['outcome', 'destination']),
    answers: counter(
      'delivery_attempts_total',
      'Ended delivery attempts by result and HTTP status class. none: no response, or no status in the log.',
      ['result', 'status_class', 'destination'],
    ),
    timeToDeliver: histogram(
      'delivery_message_time_to_deliver_seconds',
      'Time between a message’s due time and its delivery, including retries.',
      ['destination'],
    ),
    queueWait: histogram(
      'delivery_message_queue_wait_seconds',
      'Time between a message’s due time and the start of its first attempt.',
      ['destination'],
    ),
    attempt: histogram(
      'delivery_attempt_duration_seconds',
      'Time from the start of a delivery attempt to its result.',
      ['result'],
    ),
    attempts: histogram('delivery_message_attempts', 'Attempts per ended message by outcome.', ['outcome']),
    inFlight: gauge('delivery_messages_in_flight', 'Messages in flight (created but not ended).'),
    oldestInFlight: gauge(
      'delivery_oldest_in_flight_timestamp_seconds',
      'Creation time of the oldest message in flight. Absent if no message is in flight.',
    ),
    overdueNow: gauge(
      'delivery_messages_in_flight_overdue',
      'Messages in flight that were due more than delivery_on_time_target_seconds ago.',
    ),
    overdue: counter(
      'delivery_messages_overdue_total',
      'Messages still in flight more than delivery_on_time_target_seconds after they were due. Changing the target does not reset the counter.',
    ),
    due: counter(
      'delivery_messages_due_total',
      'Messages delivered or failed within delivery_on_time_target_seconds after they were due, and messages that were still in flight then, each counted once.',
    ),
    onTime: counter(
      'delivery_messages_on_time_total',
      'Messages in delivery_messages_due_total that were delivered within delivery_on_time_target_seconds after they were due.',
    ),
    untracked: counter(
      'delivery_messages_untracked_total',
      'Messages with an incomplete lifecycle. unknown_start: creation never read; evicted: beyond the limit of 100,000 open messages or of 14 days.',
      ['reason'],
    ),
    gaps: counter(
      'delivery_event_log_gaps_total',
      'Gaps in the event log. Events were lost, so the event counters are too low.',
    ),
    late: counter(
      'delivery_event_log_late_total',
      'Events that the log listed more than events.overlap late. delivery_events_total includes them.',
    ),
    duplicates: counter(
      'delivery_event_log_duplicates_total',
      'Rows that the log listed more than once within one read. Other counters ignore them.',
    ),
    ...scheduleFamilies,
    seriesDropped,
  },
  rounds: ({ every, overlap, lateSweep }: EventsOptions) => ({
    tail: {
      every,
      requests: 1,
      priority: 'events',
      perDay: (one, rounds) => readingPerDay(one, rounds, { overlap, lateSweep }),
    },
    ...(lateSweep > overlap && {
      sweep: { every: Math.max(60_000, lateSweep / 6), requests: 1, priority: 'background' },
    }),
  }),
  auxiliary: ['sweep'],
  lasting: ['since'],
  create: createEvents,
  samples(facts: EventsFacts) {
    const { gauges, since, log, destinations, schedules, labelled, beyondCap } = facts;
    const counted = (value: number) => [{ labels: {}, value }];
    const time = (ms: number | undefined) => optionalSample({}, toSeconds(ms));
    const byDestination = <L>(countsOf: (tally: DestinationTally) => readonly { labels: L; value: number }[]) =>
      [...destinations].flatMap(([name, tally]) => {
        const destination = labelled.counters ? name : undefined;
        return countsOf(tally).map(({ labels, value }) => ({ labels: { ...labels, destination }, value }));
      });
    const waits = (wait: 'timeToDeliver' | 'queueWait') =>
      shownWaits(facts, wait).flatMap(({ destination, state }) =>
        histogramSamples({ destination }, BUCKET_BOUNDS[wait], state),
      );
    return {
      recent: gauges ? EVENT_STATES.map(state => ({ labels: { state }, value: gauges.recent[state] })) : [],
      since: time(since),
      newest: time(gauges?.newest),
      lag: time(gauges?.lag),
      total: byDestination(tally => EVENT_STATES.map(state => ({ labels: { state }, value: tally.events[state] }))),
      finished: byDestination(tally =>
        MESSAGE_OUTCOMES.map(outcome => ({ labels: { outcome }, value: tally.finished[outcome] })),
      ),
      answers: byDestination(tally =>
        shownResponses(tally).map(({ result, statusClass, count }) => ({
          labels: { result, status_class: statusClass },
          value: count,
        })),
      ),
      timeToDeliver: waits('timeToDeliver'),
      queueWait: waits('queueWait'),
      attempt: DELIVERY_RESULTS.flatMap(result =>
        histogramSamples({ result }, BUCKET_BOUNDS.attempt, log.attempt[result]),
      ),
      attempts: MESSAGE_OUTCOMES.flatMap(outcome =>
        histogramSamples({ outcome }, BUCKET_BOUNDS.attempts, log.attempts[outcome]),
      ),
      inFlight: optionalSample({}, gauges?.inFlight),
      oldestInFlight: time(gauges?.oldestInFlight),
      overdueNow: optionalSample({}, gauges?.overdue),
      overdue: counted(log.overdue),
      due: counted(log.due),
      onTime: counted(log.onTime),
      untracked: UNTRACKED.map(reason => ({ labels: { reason }, value: log.untracked[reason] })),
      gaps: counted(log.gaps),
      late: counted(log.late),
      duplicates: counted(log.duplicates),
      ...scheduleSamples(schedules),
      seriesDropped: labelled.counters ? [{ labels: { family: 'delivery_events_total' }, value: beyondCap }] : [],
    };
  },
});

type Context = ObserveContext<Memory, Walk>;
type Observed = Promise<Observation<EventsFacts, Memory, Walk>>;

/** Returns a snapshot of a memory's facts. */
function factsOf(memory: Memory, { window, destination, destinationHistograms }: EventsOptions): EventsFacts {
  const { gauges, checkpoint, log, destinations, schedules } = memory;
  const counters = destination !== 'none';
  return {
    gauges,
    windowMs: window,
    since: checkpoint?.floor,
    log: structuredClone(log),
    destinations: destinations.copies(),
    schedules: schedules.facts(),
    beyondCap: destinations.beyond,
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
        return { memory, facts: recall(memory), changes: drainChanges(memory) };
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
        return { memory, facts: recall(memory), changes: drainChanges(memory) };
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
