import { recordOf } from '../kit/record.ts';
import type { Dialect } from './dialect.ts';
import { type EmulatedMessage, LOG_STATES, type LoggedEvent, type LogState } from './message.ts';
import { fractionOf } from './random.ts';
import { RowTimeline } from './timeline.ts';

export type StateCounts = Record<LogState, number>;

/** Times of the events to count (ms since the Unix epoch). `from` and `to` are inclusive. */
export interface CountRange {
  readonly from?: number;
  readonly to?: number;
}

/** Contains every event once, listed or not. */
export class EventLog extends RowTimeline<LoggedEvent> {
  /** Counts the retained events by state. */
  count({ from = 0, to = Number.POSITIVE_INFINITY }: CountRange = {}): StateCounts {
    const counts = recordOf(LOG_STATES, () => 0);
    this.forEach(({ state }, time) => {
      if (time >= from && time <= to) counts[state]++;
    });
    return counts;
  }
}

type EventTest = (event: LoggedEvent, time: number) => boolean;

/** Returns the delay of an event, from 0 to `logLateMs`. Deterministic. */
export function lateBy(
  seed: number,
  { message, state }: { readonly message: Pick<EmulatedMessage, 'messageId'>; readonly state: LogState },
  time: number,
  { logLateShare, logLateMs }: Pick<Dialect, 'logLateShare' | 'logLateMs'>,
): number {
  const event = `${message.messageId} ${state} ${time}`;
  if (fractionOf(seed, `late ${event}`) >= logLateShare) return 0;
  return Math.ceil((1 - fractionOf(seed, `delay ${event}`)) * logLateMs);
}

/** The log as the API lists it: events may be delayed, unordered or duplicated. Times in ms since the Unix epoch. */
export type LogView = ReturnType<typeof createLogView>;

/** `until`: returns the time up to which events may be listed. Individual events may be delayed further. Never decreases. */
export const createLogView = (seed: number, dialect: Dialect, until: (now: number) => number) => ({
  until,
  /** Returns a predicate that matches events up to `until(now)` that are not listed; undefined if all are listed. */
  unlisted(now: number): EventTest | undefined {
    const { logLateShare, logLateMs } = dialect;
    if (logLateShare === 0 || logLateMs === 0) return undefined;
    const last = until(now);
    // Fast path: most events are older than any delay.
    return (event, time) =>
      time + logLateMs > last && time + lateBy(seed, event, time, { logLateShare, logLateMs }) > last;
  },
  /** Returns a function that returns how often an event is listed; undefined if every event is listed once. */
  get copies(): ((event: LoggedEvent, time: number) => number) | undefined {
    const { logDuplicates } = dialect;
    if (logDuplicates === 0) return undefined;
    return ({ message, state }, time) =>
      fractionOf(seed, `twice ${message.messageId} ${state} ${time}`) < logDuplicates ? 2 : 1;
  },
});
