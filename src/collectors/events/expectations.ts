import { createOccurrences, type Occurrence } from '../../kit/cron.ts';
import type { Schedule } from './schedule-options.ts';

/** A time span (ms since the Unix epoch), both ends included. */
export interface TimeSpan {
  readonly from: number;
  readonly to: number;
}

/** An expected start without an outcome. Times are in milliseconds since the Unix epoch. */
interface Expectation {
  /** Time of the expected start. The message may be created up to `EARLY` before it. */
  readonly at: number;
  /** End of the grace period after `at`, or after the second occurrence of `at` if clocks are set back. */
  readonly until: number;
  startedAt?: number;
  deliveredAt?: number;
  /** Incompletely read span of the log that may contain the expected events. */
  unread?: TimeSpan;
}

/** State of one schedule. Times are in milliseconds since the Unix epoch. */
export interface ScheduleState {
  lastStarted?: number;
  lastDelivered?: number;
  lastFailed?: number;
  missed: number;
  late: number;
  /** The latest start with an outcome. `unread`: the log may have been read incompletely. */
  judged?: { readonly at: number; readonly as: 'ok' | 'missed' | 'late' | 'unread' };
  /** All starts expected up to this time are in `open` or closed. Undefined before the first read. */
  expectedTo?: number;
  open: Expectation[];
}

/** Remaining number of expectations that may be added at once. Computing each takes about 0.2 ms. */
export interface Allowance {
  left: number;
}

/** Maximum time by which a message is created before its expected start (ms), because clocks differ. */
const EARLY = 2000;

export const overlaps = (span: TimeSpan | undefined, from: number, to: number) =>
  span !== undefined && span.from <= to && span.to >= from;

/** Returns the outcome that an expected start has at `time`; undefined while it is open. */
function outcomeOf({ at, until, startedAt, deliveredAt, unread }: Expectation, endsWithin: number, time: number) {
  if (startedAt === undefined) {
    if (time < until) return undefined;
    return overlaps(unread, at - EARLY, until) ? 'unread' : 'missed';
  }
  const end = startedAt + endsWithin;
  if (deliveredAt !== undefined && deliveredAt <= end) return 'ok';
  if (time < end) return undefined;
  return overlaps(unread, startedAt, end) ? 'unread' : 'late';
}

/** Tracks the expected starts of one schedule. Methods that change the state return whether they did. */
export function createTimetable(
  { cron, tz, grace, endsWithin }: Pick<Schedule, 'cron' | 'tz' | 'grace' | 'endsWithin'>,
  state: ScheduleState,
) {
  const occurrenceAfter = createOccurrences(cron, tz);
  let upcoming: { readonly after: number; readonly due: Occurrence | undefined } | undefined;

  function due(): Occurrence | undefined {
    const { expectedTo } = state;
    if (expectedTo === undefined) return undefined;
    if (upcoming?.after !== expectedTo) upcoming = { after: expectedTo, due: occurrenceAfter(expectedTo) };
    return upcoming.due;
  }

  /** Whether a message created at `createdAt` is the expected one. While clocks are set back, it may be created twice. */
  function isFulfilled({ at, until }: Expectation, createdAt: number): boolean {
    const isWithinGrace = (start: number) => createdAt >= start - EARLY && createdAt <= start + grace;
    return isWithinGrace(at) || isWithinGrace(Math.max(at, until - grace));
  }

  /** Records the outcome of an expectation if it has one at `time`. Returns whether it has one. */
  function hasOutcome(expectation: Expectation, time: number): boolean {
    const as = outcomeOf(expectation, endsWithin, time);
    if (as === undefined) return false;
    if (as === 'missed' || as === 'late') state[as] += 1;
    if (expectation.at >= (state.judged?.at ?? 0)) state.judged = { at: expectation.at, as };
    return true;
  }

  function expectUntil(time: number, allowance: Allowance): boolean {
    const before = state.expectedTo;
    for (let next = due(); next && next.at <= time && allowance.left > 0; next = due()) {
      allowance.left -= 1;
      state.open.push({ at: next.at, until: next.again + grace });
      state.expectedTo = next.at;
    }
    return state.expectedTo !== before;
  }

  return {
    begin(now: number): boolean {
      if (state.expectedTo !== undefined) return false;
      // The message of a start in the next two seconds may have been created before the first read.
      state.expectedTo = now + EARLY;
      return true;
    },
    /** Adds the starts expected up to `time`, within the allowance. The next call adds the rest. */
    expectUntil,
    /**
     * Adds the starts that an event at `time` may fulfil, and all earlier ones. When the allowance is used up, skips the starts
     * that are too old for the event.
     */
    expectFor(time: number, allowance: Allowance): boolean {
      const isChanged = expectUntil(time + EARLY, allowance);
      if (state.expectedTo === undefined || allowance.left > 0) return isChanged;
      state.expectedTo = Math.max(state.expectedTo, time - grace - 1);
      expectUntil(time + EARLY, { left: Number.POSITIVE_INFINITY });
      return true;
    },
    started(at: number): boolean {
      let isChanged = false;
      for (const open of state.open) {
        if (!isFulfilled(open, at) || at >= (open.startedAt ?? Number.POSITIVE_INFINITY)) continue;
        open.startedAt = at;
        isChanged = true;
      }
      return isChanged;
    },
    /** Records the delivery of a message. `createdAt`: its creation time, if known. */
    delivered(at: number, createdAt: number | undefined): boolean {
      let isChanged = false;
      for (const open of state.open) {
        // A message of unknown creation time may be the expected one.
        const isExpected = createdAt === undefined ? at >= open.at - EARLY : isFulfilled(open, createdAt);
        if (!isExpected || at >= (open.deliveredAt ?? Number.POSITIVE_INFINITY)) continue;
        open.deliveredAt = at;
        isChanged = true;
      }
      return isChanged;
    },
    /** Marks a span of the log as incompletely read. Skips starts not yet added if the span may contain their messages. */
    markUnread(span: TimeSpan): boolean {
      let isChanged = false;
      for (const open of state.open) {
        if (!overlaps(span, open.at - EARLY, open.until + endsWithin)) continue;
        const { from, to } = open.unread ?? span;
        open.unread = { from: Math.min(from, span.from), to: Math.max(to, span.to) };
        isChanged = true;
      }
      if (state.expectedTo === undefined || state.expectedTo >= span.to + EARLY) return isChanged;
      state.expectedTo = span.to + EARLY;
      return true;
    },
    /** Closes expectations that have an outcome. The log must be complete up to `time`. */
    close(time: number): boolean {
      const { length } = state.open;
      state.open = state.open.filter(open => !hasOutcome(open, time));
      return state.open.length !== length;
    },
    next: (): number | undefined => due()?.at,
  };
}
