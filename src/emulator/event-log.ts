import { recordOf } from '../kit/record.ts';
import type { Dialect } from './dialect.ts';
import { type EventState, type LoggedEvent, type Message, STATES } from './message.ts';
import { fractionOf } from './random.ts';
import { type Position, Timeline } from './timeline.ts';

export type StateCounts = Record<EventState, number>;

/** Which events to count; times in milliseconds, both ends included. */
export interface CountRange {
  readonly from?: number;
  readonly to?: number;
  readonly within?: ((time: number) => boolean) | undefined;
}

const noneOfAny = (): StateCounts => recordOf(STATES, () => 0);

/** Every event once, listed or not, and how many there were since the log began. */
export class EventLog extends Timeline<LoggedEvent> {
  readonly #total = noneOfAny();

  /** How many events were ever added by state, those among them that are kept no more. */
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

  /** How many events are kept, by state; each is looked at. */
  count({ from = 0, to = Number.POSITIVE_INFINITY, within }: CountRange = {}): StateCounts {
    const counts = noneOfAny();
    this.forEach(({ state }, time) => {
      if (time >= from && time <= to && (!within || within(time))) counts[state]++;
    });
    return counts;
  }
}

type EventTest = (event: LoggedEvent, time: number) => boolean;

interface LateRule {
  readonly share: number;
  readonly mostMs: number;
}

/** Milliseconds by which this event is late: 0, or from 1 to `mostMs`. The same for the same seed, message, state and time. */
export function lateBy(
  seed: number,
  { message, state }: { readonly message: Pick<Message, 'messageId'>; readonly state: EventState },
  time: number,
  { share, mostMs }: LateRule,
): number {
  const event = `${message.messageId} ${state} ${time}`;
  if (fractionOf(seed, `late ${event}`) >= share) return 0;
  return Math.ceil((1 - fractionOf(seed, `delay ${event}`)) * mostMs);
}

/** The listed part of the event log: late, unordered, partly repeated, and empty during an incident. Times: ms since the Unix epoch. */
export class LogView {
  readonly #seed: number;
  readonly #dialect: Dialect;
  readonly #latest: (now: number) => number;
  /** What was listed stays listed: a rule holds for events after the horizon at which it was set. */
  readonly #lateRules: (LateRule & { readonly after: number })[] = [];
  readonly #gaps: { readonly from: number; to: number }[] = [];
  #horizon = Number.NEGATIVE_INFINITY;

  /** `latest`: up to when events would be listed by lag and scenario. Lateness comes on top: an event waits for both. */
  constructor(seed: number, dialect: Dialect, latest: (now: number) => number) {
    this.#seed = seed;
    this.#dialect = dialect;
    this.#latest = latest;
  }

  /** The latest time of which events are listed when it is `now`. Never goes back: what was listed stays listed. */
  until(now: number): number {
    this.#followDialect();
    this.#horizon = Math.max(this.#horizon, this.#latest(now));
    return this.#horizon;
  }

  /** Whether an event up to that time is nevertheless not listed; undefined when all of them are. */
  unlisted(now: number): EventTest | undefined {
    const { lost } = this;
    const held = this.#heldBack(this.until(now));
    if (!lost) return held;
    return held ? (event, time) => lost(time) || held(event, time) : (_, time) => lost(time);
  }

  /** How often an event is listed; undefined when each is once. */
  get copies(): ((event: LoggedEvent, time: number) => number) | undefined {
    const { logDuplicates } = this.#dialect;
    if (logDuplicates === 0) return undefined;
    return ({ message, state }, time) =>
      fractionOf(this.#seed, `twice ${message.messageId} ${state} ${time}`) < logDuplicates ? 2 : 1;
  }

  /** Whether an event of this time was never written; undefined when none is lost. */
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
    const { logLateShare: share, logLateMs: mostMs } = this.#dialect;
    const last = this.#lateRules.at(-1);
    if (last?.share === share && last.mostMs === mostMs) return;
    if (last?.after === this.#horizon) this.#lateRules.pop();
    this.#lateRules.push({ share, mostMs, after: this.#horizon });
  }

  /** Whether an event is held back while others are listed up to `until`; undefined when none is. */
  #heldBack(until: number): EventTest | undefined {
    const longest = Math.max(0, ...this.#lateRules.map(({ share, mostMs }) => (share > 0 ? mostMs : 0)));
    if (longest === 0) return undefined;
    return (event, time) => {
      // Most events are too old to ask what was drawn for them.
      if (time + longest <= until) return false;
      const rule = this.#lateRules.findLast(({ after }) => time > after);
      return rule !== undefined && time + lateBy(this.#seed, event, time, rule) > until;
    };
  }
}
