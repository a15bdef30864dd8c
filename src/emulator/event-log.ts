import { recordOf } from '../kit/record.ts';
import type { Dialect } from './dialect.ts';
import { type EmulatedMessage, LOG_STATES, type LoggedEvent, type LogState } from './message.ts';
import { fractionOf } from './random.ts';
import { type Position, RowTimeline } from './timeline.ts';

export type StateCounts = Record<LogState, number>;

/** Times of the events to count (ms since the Unix epoch). `from` and `to` are inclusive. */
export interface CountRange {
  readonly from?: number;
  readonly to?: number;
  readonly within?: ((time: number) => boolean) | undefined;
}

const zeroCounts = (): StateCounts => recordOf(LOG_STATES, () => 0);

/** Contains every event once, listed or not, and counts all events since the start. */
export class EventLog extends RowTimeline<LoggedEvent> {
  readonly #total = zeroCounts();

  /** Number of events ever added, by state. */
  get total(): Readonly<StateCounts> {
    return { ...this.#total };
  }

  override add(time: number, event: LoggedEvent): Position {
    this.#total[event.state]++;
    return super.add(time, event);
  }

  override addAll(rows: readonly (readonly [time: number, event: LoggedEvent])[]): void {
    for (const [, { state }] of rows) this.#total[state]++;
    super.addAll(rows);
  }

  /** Counts the retained events by state. */
  count({ from = 0, to = Number.POSITIVE_INFINITY, within }: CountRange = {}): StateCounts {
    const counts = zeroCounts();
    this.forEach(({ state }, time) => {
      if (time >= from && time <= to && (!within || within(time))) counts[state]++;
    });
    return counts;
  }
}

type EventTest = (event: LoggedEvent, time: number) => boolean;

interface LateRule {
  readonly share: number;
  readonly maxMs: number;
}

/** Returns the delay of an event, from 0 to `maxMs`. Deterministic. */
export function lateBy(
  seed: number,
  { message, state }: { readonly message: Pick<EmulatedMessage, 'messageId'>; readonly state: LogState },
  time: number,
  { share, maxMs }: LateRule,
): number {
  const event = `${message.messageId} ${state} ${time}`;
  if (fractionOf(seed, `late ${event}`) >= share) return 0;
  return Math.ceil((1 - fractionOf(seed, `delay ${event}`)) * maxMs);
}

/** The log as the API lists it: events may be delayed, unordered, duplicated or missing. Times in ms since the Unix epoch. */
export class LogView {
  readonly #seed: number;
  readonly #dialect: Dialect;
  readonly #latest: (now: number) => number;
  /** Each rule applies only to events after it was set, because listed events stay listed. */
  readonly #lateRules: (LateRule & { readonly after: number })[] = [];
  readonly #gaps: { readonly from: number; to: number }[] = [];
  #horizon = Number.NEGATIVE_INFINITY;

  /** `latest`: returns the time up to which events may be listed. Individual events may be delayed further. */
  constructor(seed: number, dialect: Dialect, latest: (now: number) => number) {
    this.#seed = seed;
    this.#dialect = dialect;
    this.#latest = latest;
  }

  /** Returns the time up to which events are listed. Never decreases. */
  until(now: number): number {
    this.#followDialect();
    this.#horizon = Math.max(this.#horizon, this.#latest(now));
    return this.#horizon;
  }

  /** Returns a predicate that matches events up to `until(now)` that are not listed; undefined if all are listed. */
  unlisted(now: number): EventTest | undefined {
    const { lost } = this;
    const delayed = this.#delayed(this.until(now));
    if (!lost) return delayed;
    return delayed ? (event, time) => lost(time) || delayed(event, time) : (_, time) => lost(time);
  }

  /** Returns a function that returns how often an event is listed; undefined if every event is listed once. */
  get copies(): ((event: LoggedEvent, time: number) => number) | undefined {
    const { logDuplicates } = this.#dialect;
    if (logDuplicates === 0) return undefined;
    return ({ message, state }, time) =>
      fractionOf(this.#seed, `twice ${message.messageId} ${state} ${time}`) < logDuplicates ? 2 : 1;
  }

  /** Returns a predicate that matches the times of lost events; undefined if the log has no gaps. */
  get lost(): ((time: number) => boolean) | undefined {
    if (this.#gaps.length === 0) return undefined;
    return time => this.#gaps.some(({ from, to }) => time >= from && time < to);
  }

  get on(): boolean {
    return this.#gaps.at(-1)?.to !== Number.POSITIVE_INFINITY;
  }

  stop(now: number): void {
    if (this.on) this.#gaps.push({ from: now, to: Number.POSITIVE_INFINITY });
  }

  resume(now: number): void {
    const last = this.#gaps.at(-1);
    if (last && !this.on) last.to = now;
  }

  #followDialect(): void {
    const { logLateShare: share, logLateMs: maxMs } = this.#dialect;
    const last = this.#lateRules.at(-1);
    if (last?.share === share && last.maxMs === maxMs) return;
    if (last?.after === this.#horizon) this.#lateRules.pop();
    this.#lateRules.push({ share, maxMs, after: this.#horizon });
  }

  /** Returns a predicate that matches events delayed beyond `until`; undefined if no event can be delayed. */
  #delayed(until: number): EventTest | undefined {
    const longest = Math.max(0, ...this.#lateRules.map(({ share, maxMs }) => (share > 0 ? maxMs : 0)));
    if (longest === 0) return undefined;
    return (event, time) => {
      // Fast path: most events are older than any delay.
      if (time + longest <= until) return false;
      const rule = this.#lateRules.findLast(({ after }) => time > after);
      return rule !== undefined && time + lateBy(this.#seed, event, time, rule) > until;
    };
  }
}
