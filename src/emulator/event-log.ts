import type { Dialect } from './dialect.ts';
import { type EventState, type LoggedEvent, type Message, STATES } from './message.ts';
import { fractionOf } from './random.ts';
import { type Position, Timeline } from './timeline.ts';

export type StateCounts = Record<EventState, number>;

/** Which events to count; times in milliseconds, both ends included. */
export interface CountRange {
  readonly from?: number;
  readonly to?: number;
  /** Only those whose time is one of these. */
  readonly within?: ((time: number) => boolean) | undefined;
}

const noneOfAny = () => Object.fromEntries(STATES.map(state => [state, 0])) as StateCounts;

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

/** Which events are listed late, and by how much. */
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

/** Some events are listed later than others of their time. Times: milliseconds since the Unix epoch. */
function createLateness(seed: number, dialect: Dialect) {
  const rules: (LateRule & { readonly after: number })[] = [];
  return {
    /** The options of now hold for events after `horizon`; earlier events may be listed already, and stay listed. */
    follow(horizon: number): void {
      const { logLateShare: share, logLateMs: mostMs } = dialect;
      const last = rules.at(-1);
      if (last?.share === share && last.mostMs === mostMs) return;
      if (last?.after === horizon) rules.pop();
      rules.push({ share, mostMs, after: horizon });
    },
    /** Whether an event is held back while others are listed up to `until`; undefined when none is. */
    holding(until: number): EventTest | undefined {
      const longest = Math.max(0, ...rules.map(({ share, mostMs }) => (share > 0 ? mostMs : 0)));
      if (longest === 0) return undefined;
      return (event, time) => {
        // Most events are too old to ask what was drawn for them.
        if (time + longest <= until) return false;
        const rule = rules.findLast(({ after }) => time > after);
        return rule !== undefined && time + lateBy(seed, event, time, rule) > until;
      };
    },
  };
}

/**
 * What of the event log is listed: the service writes it apart from the deliveries, late, out of order, some of it twice, and
 * in an incident not at all. Times: milliseconds since the Unix epoch.
 */
export interface LogView {
  /** The latest time of which events are listed when it is `now`. Never goes back: what was listed stays listed. */
  until(now: number): number;
  /** Whether an event up to that time is nevertheless not listed; undefined when all of them are. */
  unlisted(now: number): EventTest | undefined;
  /** How often an event is listed; undefined when each is once. */
  readonly copies: ((event: LoggedEvent, time: number) => number) | undefined;
  /** Whether an event of this time was never written; undefined when none is lost. */
  readonly lost: ((time: number) => boolean) | undefined;
  /** Whether events are written. */
  readonly on: boolean;
  /** From this time on, events are lost. */
  stop(now: number): void;
  /** From this time on, events are written again. */
  resume(now: number): void;
}

interface LogViewParts {
  readonly seed: number;
  readonly dialect: Dialect;
  /** Up to when events would be listed by lag and scenario. Lateness comes on top: an event waits for both. */
  readonly latest: (now: number) => number;
}

export function createLogView({ seed, dialect, latest }: LogViewParts): LogView {
  let horizon = Number.NEGATIVE_INFINITY;
  const lateness = createLateness(seed, dialect);
  const gaps: { readonly from: number; to: number }[] = [];
  const lost = (time: number) => gaps.some(({ from, to }) => time >= from && time < to);
  const copies = ({ message, state }: LoggedEvent, time: number) =>
    fractionOf(seed, `twice ${message.messageId} ${state} ${time}`) < dialect.logDuplicates ? 2 : 1;
  const isOn = () => gaps.at(-1)?.to !== Number.POSITIVE_INFINITY;

  function until(now: number): number {
    lateness.follow(horizon);
    horizon = Math.max(horizon, latest(now));
    return horizon;
  }

  return {
    until,
    unlisted(now) {
      const held = lateness.holding(until(now));
      if (gaps.length === 0) return held;
      return held ? (event, time) => lost(time) || held(event, time) : (_, time) => lost(time);
    },
    get copies() {
      return dialect.logDuplicates > 0 ? copies : undefined;
    },
    get lost() {
      return gaps.length > 0 ? lost : undefined;
    },
    get on() {
      return isOn();
    },
    stop(now) {
      if (isOn()) gaps.push({ from: now, to: Number.POSITIVE_INFINITY });
    },
    resume(now) {
      const last = gaps.at(-1);
      if (last && !isOn()) last.to = now;
    },
  };
}
