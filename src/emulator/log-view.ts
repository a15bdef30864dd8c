import type { Dialect } from './dialect.ts';
import { createLateness } from './lateness.ts';
import type { LoggedEvent } from './message.ts';
import { fractionOf } from './random.ts';

/**
 * What of the event log is listed: the service writes it apart from the deliveries, late, out of order, some of it twice, and
 * in an incident not at all. Times: milliseconds since the Unix epoch.
 */
export interface LogView {
  /** The latest time of which events are listed when it is `now`. Never goes back: what was listed stays listed. */
  until(now: number): number;
  /** Whether an event up to that time is nevertheless not listed; undefined when all of them are. */
  unlisted(now: number): ((event: LoggedEvent, time: number) => boolean) | undefined;
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

interface Gap {
  readonly from: number;
  to: number;
}

export interface LogViewParts {
  readonly seed: number;
  readonly dialect: Dialect;
  /** Up to when events would be listed by lag and scenario. Lateness comes on top: an event waits for both. */
  readonly latest: (now: number) => number;
}

export function createLogView({ seed, dialect, latest }: LogViewParts): LogView {
  let horizon = Number.NEGATIVE_INFINITY;
  const lateness = createLateness(seed, dialect);
  const gaps: Gap[] = [];
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
