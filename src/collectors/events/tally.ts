import { recordOf } from '../../kit/record.ts';
import { createHistogram, type HistogramState, observeValue } from '../../metrics/family.ts';
import { EVENT_STATES, type EventState, MESSAGE_OUTCOMES, type MessageOutcome } from '../../model/message.ts';

/** Result of an attempt: whether the destination accepted the message. */
export const DELIVERY_RESULTS = ['success', 'error'] as const;
export type DeliveryResult = (typeof DELIVERY_RESULTS)[number];

/** Status class of an attempt's response. `none`: no response, or no status in the log. */
export const STATUS_CLASSES = ['none', '2xx', '3xx', '4xx', '5xx'] as const;
export type StatusClass = (typeof STATUS_CLASSES)[number];

/** Returns the index of an HTTP status in STATUS_CLASSES. */
export function statusClassOf(status: number | undefined): number {
  const hundreds = status === undefined ? 0 : Math.floor(status / 100);
  return hundreds >= 2 && hundreds <= 5 ? hundreds - 1 : 0;
}

/** Attempt result by event state, for states that end an attempt. */
const RESULT_OF: Readonly<Partial<Record<EventState, DeliveryResult>>> = { delivered: 'success', error: 'error' };

export const UNTRACKED = ['unknown_start', 'evicted'] as const;

/**
 * Upper bounds of histogram buckets (s; for `attempts`: counts). The longer bounds lie between the delays of the service's
 * default retries.
 */
export const BUCKET_BOUNDS = {
  timeToDeliver: [0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 300, 900, 2400, 7200, 28_800, 86_400, 129_600],
  queueWait: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 7200],
  attempt: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900],
  attempts: [1, 2, 3, 4, 5, 6, 8],
} as const;

interface Waits {
  readonly timeToDeliver: HistogramState;
  readonly queueWait: HistogramState;
}

export interface DestinationTally extends Waits {
  readonly events: Record<EventState, number>;
  readonly finished: Record<MessageOutcome, number>;
  readonly answers: Record<DeliveryResult, Record<StatusClass, number>>;
  /** Attempts that began while the previous one had no result, or after the message's end. */
  redelivered: number;
}

export interface LogTally extends Waits {
  readonly attempt: Record<DeliveryResult, HistogramState>;
  readonly attempts: Record<MessageOutcome, HistogramState>;
  readonly untracked: Record<(typeof UNTRACKED)[number], number>;
  overdue: number;
  /** Messages delivered or failed before the on-time target, and messages past their target. */
  due: number;
  /** Messages in `due` that were delivered before the target. */
  onTime: number;
  gaps: number;
  late: number;
  duplicates: number;
}

const createWaits = (): Waits => ({
  timeToDeliver: createHistogram(BUCKET_BOUNDS.timeToDeliver),
  queueWait: createHistogram(BUCKET_BOUNDS.queueWait),
});

export function createDestinationTally(): DestinationTally {
  return {
    ...createWaits(),
    events: recordOf(EVENT_STATES, () => 0),
    finished: recordOf(MESSAGE_OUTCOMES, () => 0),
    answers: recordOf(DELIVERY_RESULTS, () => recordOf(STATUS_CLASSES, () => 0)),
    redelivered: 0,
  };
}

/** Counts an event and the attempt that it ends. `state` and `statusClass` are indexes. */
export function countEvent(tally: DestinationTally, state: number, statusClass: number): void {
  const name = EVENT_STATES[state] as EventState;
  tally.events[name] += 1;
  const result = RESULT_OF[name];
  if (result) tally.answers[result][STATUS_CLASSES[statusClass] as StatusClass] += 1;
}

export function createLogTally(): LogTally {
  return {
    ...createWaits(),
    attempt: recordOf(DELIVERY_RESULTS, () => createHistogram(BUCKET_BOUNDS.attempt)),
    attempts: recordOf(MESSAGE_OUTCOMES, () => createHistogram(BUCKET_BOUNDS.attempts)),
    untracked: recordOf(UNTRACKED, () => 0),
    overdue: 0,
    due: 0,
    onTime: 0,
    gaps: 0,
    late: 0,
    duplicates: 0,
  };
}

/** Converts milliseconds to seconds. Clock skew may make a duration negative, which counts as 0. */
const seconds = (ms: number) => Math.max(0, ms) / 1000;

export function observeAttempt(log: LogTally, result: DeliveryResult, ms: number): void {
  observeValue(log.attempt[result], BUCKET_BOUNDS.attempt, seconds(ms));
}

export function observeWait(tallies: readonly Waits[], wait: keyof Waits, ms: number): void {
  for (const tally of tallies) observeValue(tally[wait], BUCKET_BOUNDS[wait], seconds(ms));
}
