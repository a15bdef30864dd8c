import { createOccurrences, type Occurrence } from '../../kit/cron.ts';
import type { Schedule } from './schedule-options.ts';

/** A span of time, milliseconds since the Unix epoch, both ends included. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** A start that is expected and not judged yet. Times: milliseconds since the Unix epoch. */
interface Expectation {
  /** A message that is created from then on, and until `until`, fulfils it. */
  readonly at: number;
  readonly until: number;
  startedAt?: number;
  deliveredAt?: number;
  /** What of the log was not read whole while it mattered. */
  unread?: Span;
}

/** How one schedule has fared. Changed in place. Times: milliseconds since the Unix epoch. */
export interface ScheduleState {
  lastStarted?: number;
  lastDelivered?: number;
  lastFailed?: number;
  missed: number;
  late: number;
  /** Since when these two count; undefined before the first read. */
  since?: number;
  /** The latest start that was judged: when it was expected, and what became of it. `unread`: the log may not have been read whole. */
  judged?: { readonly at: number; readonly as: 'ok' | 'missed' | 'late' | 'unread' };
  /** What is expected until here is open or judged; nothing is expected before the first. Undefined before the first read. */
  expectedTo?: number;
  open: Expectation[];
}

/** Expectations that are added at a time, whatever time has passed: finding one takes about 0.2 ms. */
export interface Allowance {
  left: number;
}

/** The expectations of one schedule. Each of the functions says whether the state has changed. */
export type Timetable = ReturnType<typeof createTimetable>;

const meets = (span: Span | undefined, from: number, to: number) =>
  span !== undefined && span.from <= to && span.to >= from;

/** Outcome of an expected start at `time`; undefined while it is open. */
function outcomeOf({ at, until, startedAt, deliveredAt, unread }: Expectation, endsWithin: number, time: number) {
  if (startedAt === undefined) {
    if (time < until) return undefined;
    return meets(unread, at, until) ? 'unread' : 'missed';
  }
  const end = startedAt + endsWithin;
  if (deliveredAt !== undefined && deliveredAt <= end) return 'ok';
  if (time < end) return undefined;
  return meets(unread, startedAt, end) ? 'unread' : 'late';
}

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

  function isOver(expectation: Expectation, time: number): boolean {
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
      state.expectedTo = now;
      return true;
    },
    /** Adds what is expected until `time`, as far as is allowed; the rest with the next call. */
    expectUntil,
    /** As `expectUntil`, for an event of that time: what is not allowed before it is never judged. */
    expectFor(time: number, allowance: Allowance): boolean {
      const isChanged = expectUntil(time, allowance);
      if (state.expectedTo === undefined || allowance.left > 0) return isChanged;
      state.expectedTo = Math.max(state.expectedTo, time - grace - 1);
      expectUntil(time, { left: Number.POSITIVE_INFINITY });
      return true;
    },
    started(at: number): boolean {
      let isChanged = false;
      for (const open of state.open) {
        if (at < open.at || at > open.until || at >= (open.startedAt ?? Number.POSITIVE_INFINITY)) continue;
        open.startedAt = at;
        isChanged = true;
      }
      return isChanged;
    },
    /** One that was created at `createdAt`, as far as that is known, was delivered. */
    delivered(at: number, createdAt: number | undefined): boolean {
      let isChanged = false;
      for (const open of state.open) {
        // A message of unknown creation time may be the expected one.
        const isIts = createdAt === undefined ? at >= open.at : createdAt >= open.at && createdAt <= open.until;
        if (!isIts || at >= (open.deliveredAt ?? Number.POSITIVE_INFINITY)) continue;
        open.deliveredAt = at;
        isChanged = true;
      }
      return isChanged;
    },
    /** What the log has of this span may not have been read whole: what else begins in it is not expected. */
    markUnread(span: Span): boolean {
      let isChanged = false;
      for (const open of state.open) {
        if (!meets(span, open.at, open.until + endsWithin)) continue;
        const { from, to } = open.unread ?? span;
        open.unread = { from: Math.min(from, span.from), to: Math.max(to, span.to) };
        isChanged = true;
      }
      if (state.expectedTo === undefined || state.expectedTo >= span.to) return isChanged;
      state.expectedTo = span.to;
      return true;
    },
    /** Judges what can be, once everything until `time` is known. */
    judge(time: number): boolean {
      const { length } = state.open;
      state.open = state.open.filter(open => !isOver(open, time));
      return state.open.length !== length;
    },
    next: (): number | undefined => due()?.at,
  };
}
