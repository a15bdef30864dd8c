/**
 * What of the event log is listed: the service writes it apart from the deliveries, late, and in an incident not at all.
 * Times: milliseconds since the Unix epoch.
 */
export interface LogView {
  /** The latest time of which events are listed when it is `now`. Never goes back: what was listed stays listed. */
  until(now: number): number;
  /** Whether an event of this time was never written; undefined when none is lost. */
  readonly lost: ((time: number) => boolean) | undefined;
  /** From this time on, events are lost. */
  stop(now: number): void;
  /** From this time on, events are written again. */
  resume(now: number): void;
}

interface Gap {
  readonly from: number;
  to: number;
}

/** `latest` says up to when events would be listed by lag and scenario. */
export function createLogView(latest: (now: number) => number): LogView {
  let horizon = Number.NEGATIVE_INFINITY;
  const gaps: Gap[] = [];
  const lost = (time: number) => gaps.some(({ from, to }) => time >= from && time < to);
  return {
    until(now) {
      horizon = Math.max(horizon, latest(now));
      return horizon;
    },
    get lost() {
      return gaps.length > 0 ? lost : undefined;
    },
    stop(now) {
      if (gaps.at(-1)?.to !== Number.POSITIVE_INFINITY) gaps.push({ from: now, to: Number.POSITIVE_INFINITY });
    },
    resume(now) {
      const last = gaps.at(-1);
      if (last?.to === Number.POSITIVE_INFINITY) last.to = now;
    },
  };
}
