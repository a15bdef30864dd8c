import { recordOf } from '../../kit/record.ts';
import { histogramSamples, type Sample } from '../../metrics/family.ts';
import { EVENT_STATES, MESSAGE_OUTCOMES } from '../../model/message.ts';
import { seriesDropped } from '../cap.ts';
import { familiesOf, toSeconds } from '../collector.ts';
import type { Gauges, QueueDeliveries } from './memory.ts';
import { type DoubleStart, type ScheduleFacts, scheduleFamilies } from './schedules.ts';
import {
  BUCKET_BOUNDS,
  DELIVERY_RESULTS,
  type DestinationTally,
  type LogTally,
  STATUS_CLASSES,
  type StatusClass,
  UNTRACKED,
} from './tally.ts';

export interface EventsFacts {
  readonly gauges: Gauges | undefined;
  readonly windowMs: number;
  /** Start of the event counters (ms since the Unix epoch); undefined before the very first read. */
  readonly since: number | undefined;
  readonly log: LogTally;
  readonly destinations: ReadonlyMap<string, DestinationTally>;
  readonly schedules: ReadonlyMap<string, ScheduleFacts>;
  /** Schedules that started twice for the same time since this process started, by id. */
  readonly doubleStarts: ReadonlyMap<string, DoubleStart>;
  readonly beyondCap: number;
  /** Last deliveries by queue, complete from `from` on (ms since the Unix epoch). */
  readonly queues: { readonly from: number; readonly deliveries: QueueDeliveries };
  readonly labelled: { readonly counters: boolean; readonly histograms: boolean };
}

/** Attempt series exposed from the start. Others appear with their first attempt. */
const EXPECTED: Readonly<Record<(typeof DELIVERY_RESULTS)[number], readonly StatusClass[]>> = {
  success: ['none', '2xx'],
  error: ['none', '3xx', '4xx', '5xx'],
};

const attemptSamples = ({ answers }: DestinationTally) =>
  DELIVERY_RESULTS.flatMap(result =>
    STATUS_CLASSES.filter(each => EXPECTED[result].includes(each) || answers[result][each] > 0).map(each => ({
      labels: { result, status_class: each },
      value: answers[result][each],
    })),
  );

/** Returns the histograms of a waiting time: one per destination, or one for the whole log. */
export const shownWaits = (
  { labelled, log, destinations }: Pick<EventsFacts, 'labelled' | 'log' | 'destinations'>,
  wait: 'timeToDeliver' | 'queueWait',
) =>
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
    redelivered: total(({ redelivered }) => redelivered),
  };
}

const { gauge, counter, histogram } = familiesOf<EventsFacts>();

/** Returns samples by destination, or samples of all events together. */
const perDestination = <L extends string>(
  { destinations, labelled }: EventsFacts,
  countsOf: (tally: DestinationTally) => readonly Sample<L>[],
) =>
  [...destinations].flatMap(([name, tally]) => {
    const destination = labelled.counters ? name : undefined;
    return countsOf(tally).map(({ labels, value }) => ({ labels: { ...labels, destination }, value }));
  });

const waitSamples = (facts: EventsFacts, wait: 'timeToDeliver' | 'queueWait') =>
  shownWaits(facts, wait).flatMap(({ destination, state }) =>
    histogramSamples({ destination }, BUCKET_BOUNDS[wait], state),
  );

const total = counter({
  name: 'delivery_events_total',
  help: 'Events by state. Events with a delay of more than events.lateSweep are not counted.',
  labels: ['state', 'destination'],
  values: { state: EVENT_STATES },
  pick: facts =>
    perDestination(facts, ({ events }) => EVENT_STATES.map(state => ({ labels: { state }, value: events[state] }))),
});

export const eventFamilies = {
  recent: gauge({
    name: 'delivery_events_recent',
    help: 'Events within the last events.window, by state. States that the agent does not know count as "unknown".',
    labels: ['state'],
    values: { state: EVENT_STATES },
    pick: ({ gauges }) => gauges && EVENT_STATES.map(state => ({ labels: { state }, value: gauges.recent[state] })),
  }),
  newest: gauge({
    name: 'delivery_event_log_newest_timestamp_seconds',
    help: 'Time of the newest event in the log. Compare it with the current time: if the difference is large, the log may have stopped.',
    pick: ({ gauges }) => toSeconds(gauges?.newest),
  }),
  lag: gauge({
    name: 'delivery_event_log_lag_seconds',
    help: 'Delay of the event log: time from an event to the last read that did not list it. The value is the maximum over the last 10 to 20 minutes. Periods without new events are skipped.',
    pick: ({ gauges }) => toSeconds(gauges?.lag),
  }),
  since: gauge({
    name: 'delivery_event_log_since_timestamp_seconds',
    help: 'Time of the first read of the event log, kept across restarts. Earlier events are not counted. Never withdrawn.',
    isLasting: true,
    pick: ({ since }) => toSeconds(since),
  }),
  total,
  finished: counter({
    name: 'delivery_messages_finished_total',
    help: 'Messages that ended, by outcome.',
    labels: ['outcome', 'destination'],
    values: { outcome: MESSAGE_OUTCOMES },
    pick: facts =>
      perDestination(facts, ({ finished }) =>
        MESSAGE_OUTCOMES.map(outcome => ({ labels: { outcome }, value: finished[outcome] })),
      ),
  }),
  redelivered: counter({
    name: 'delivery_messages_redelivered_total',
    help: 'Repeated deliveries: delivery attempts that began before the result of the previous attempt or up to events.overlap after the end of the message. If the previous attempt has no result, the attempt is counted after events.lateSweep, because that result may be delayed.',
    labels: ['destination'],
    pick: facts => perDestination(facts, ({ redelivered }) => [{ labels: {}, value: redelivered }]),
  }),
  answers: counter({
    name: 'delivery_attempts_total',
    help: 'Ended delivery attempts by result and HTTP status class. The class "none" means that there was no response, or that the log lacks the status.',
    labels: ['result', 'status_class', 'destination'],
    values: { result: DELIVERY_RESULTS, status_class: STATUS_CLASSES },
    pick: facts => perDestination(facts, attemptSamples),
  }),
  timeToDeliver: histogram({
    name: 'delivery_message_time_to_deliver_seconds',
    help: 'Time between a message’s due time and its delivery, including retries.',
    labels: ['destination'],
    pick: facts => waitSamples(facts, 'timeToDeliver'),
  }),
  queueWait: histogram({
    name: 'delivery_message_queue_wait_seconds',
    help: 'Time between a message’s due time and the start of its first attempt.',
    labels: ['destination'],
    pick: facts => waitSamples(facts, 'queueWait'),
  }),
  attempt: histogram({
    name: 'delivery_attempt_duration_seconds',
    help: 'Time from the start of a delivery attempt to its result.',
    labels: ['result'],
    pick: ({ log }) =>
      DELIVERY_RESULTS.flatMap(result => histogramSamples({ result }, BUCKET_BOUNDS.attempt, log.attempt[result])),
  }),
  attempts: histogram({
    name: 'delivery_message_attempts',
    help: 'Number of attempts per ended message, by outcome.',
    labels: ['outcome'],
    pick: ({ log }) =>
      MESSAGE_OUTCOMES.flatMap(outcome => histogramSamples({ outcome }, BUCKET_BOUNDS.attempts, log.attempts[outcome])),
  }),
  inFlight: gauge({
    name: 'delivery_messages_in_flight',
    help: 'Messages in flight (created but not ended).',
    pick: ({ gauges }) => gauges?.inFlight,
  }),
  oldestInFlight: gauge({
    name: 'delivery_oldest_in_flight_timestamp_seconds',
    help: 'Creation time of the oldest message in flight. Absent if no message is in flight.',
    pick: ({ gauges }) => toSeconds(gauges?.oldestInFlight),
  }),
  overdueNow: gauge({
    name: 'delivery_messages_in_flight_overdue',
    help: 'Messages in flight that were due more than delivery_on_time_target_seconds ago.',
    pick: ({ gauges }) => gauges?.overdue,
  }),
  overdue: counter({
    name: 'delivery_messages_overdue_total',
    help: 'Messages that were still in flight more than delivery_on_time_target_seconds after they were due. A change of this target does not reset the counter.',
    pick: ({ log }) => log.overdue,
  }),
  due: counter({
    name: 'delivery_messages_due_total',
    help: 'Messages that were on time, failed or became overdue, each counted once. delivery_messages_on_time_total counts the part that was on time.',
    pick: ({ log }) => log.due,
  }),
  onTime: counter({
    name: 'delivery_messages_on_time_total',
    help: 'Messages that were delivered on time: within delivery_on_time_target_seconds after they were due.',
    pick: ({ log }) => log.onTime,
  }),
  untracked: counter({
    name: 'delivery_messages_untracked_total',
    help: 'Messages with an incomplete lifecycle. unknown_start: the creation was never read. evicted: more than 100,000 messages were open, or the message was due more than 14 days ago.',
    labels: ['reason'],
    values: { reason: UNTRACKED },
    pick: ({ log }) => UNTRACKED.map(reason => ({ labels: { reason }, value: log.untracked[reason] })),
  }),
  gaps: counter({
    name: 'delivery_event_log_gaps_total',
    help: 'Gaps in the event log. The events in a gap are lost, so the event counters are too low.',
    pick: ({ log }) => log.gaps,
  }),
  late: counter({
    name: 'delivery_event_log_late_total',
    help: 'Events that appeared in the log with a delay of more than events.overlap. delivery_events_total includes these events.',
    pick: ({ log }) => log.late,
  }),
  duplicates: counter({
    name: 'delivery_event_log_duplicates_total',
    help: 'Rows that the log listed more than once within one read. Other counters ignore the repeated rows.',
    pick: ({ log }) => log.duplicates,
  }),
  ...scheduleFamilies,
  seriesDropped: gauge({
    ...seriesDropped,
    pick: ({ labelled, beyondCap }) =>
      labelled.counters ? [{ labels: { family: total.name }, value: beyondCap }] : [],
  }),
} as const;
