/**
 * State of one alert; inactive alerts have no state. Durations are measured on the monotonic clock between two evaluations with
 * the same result. Time with an unknown result or without a running agent does not count. All values are in ms, `startsAt` and
 * `endsAt` since the Unix epoch. `startsAt` is the start of the episode, even while the alert is pending.
 */
export type AlertState =
  | {
      readonly phase: 'pending';
      readonly startsAt: number;
      /** Time for which the condition has certainly held so far. */
      readonly heldFor: number;
      /** Time of the last evaluation; undefined after an unknown result or a restart. */
      readonly seenAt?: number | undefined;
    }
  | {
      readonly phase: 'firing';
      readonly startsAt: number;
      readonly firedAt: number;
      /** Time for which the condition has certainly not held; undefined while it holds. */
      readonly clearFor?: number | undefined;
      readonly seenAt?: number | undefined;
    }
  | { readonly phase: 'resolved'; readonly startsAt: number; readonly endsAt: number };

/** Time for which a condition must be true before an alert fires, and false before the alert is resolved (ms). */
export interface Durations {
  readonly for: number;
  readonly keepFiringFor: number;
}

/** Result of a condition. Times in ms: `now` since the Unix epoch, `monotonic` on the monotonic clock. */
export interface Evaluation {
  readonly holds: boolean | 'unknown';
  /** Start of the condition, if the data itself shows it (ms since the Unix epoch). */
  readonly since?: number | undefined;
  /** Minimum time for which the condition has held (ms), if the data itself shows it. */
  readonly heldFor?: number | undefined;
  readonly now: number;
  readonly monotonic: number;
}

/** Time for which a resolved alert is sent again (ms), as in Prometheus: a receiver may have missed it. */
const RESOLVED_RETENTION = 15 * 60_000;

const since = (seenAt: number | undefined, now: number) => (seenAt === undefined ? 0 : now - seenAt);

/** Returns the state while a condition holds. `startsAt`: start of the episode; `heldFor`: time for which it has held so far. */
function hold(startsAt: number, heldFor: number, durations: Durations, evaluation: Evaluation): AlertState {
  const longest = Math.max(heldFor, evaluation.heldFor ?? 0);
  if (longest >= durations.for) return { phase: 'firing', startsAt, firedAt: evaluation.now };
  return { phase: 'pending', startsAt, heldFor: longest, seenAt: evaluation.monotonic };
}

/** Returns the state after an evaluation; undefined if the alert is inactive. An unknown result causes no transition. */
export function advance(
  state: AlertState | undefined,
  durations: Durations,
  evaluation: Evaluation,
): AlertState | undefined {
  const { holds, now, monotonic } = evaluation;
  if (state?.phase === 'pending') {
    if (holds === 'unknown') return { ...state, seenAt: undefined };
    if (!holds) return undefined;
    return hold(state.startsAt, state.heldFor + since(state.seenAt, monotonic), durations, evaluation);
  }
  if (state?.phase === 'firing') {
    const { startsAt, firedAt } = state;
    if (holds === 'unknown') return { ...state, seenAt: undefined };
    if (holds) return { phase: 'firing', startsAt, firedAt };
    const clearFor = state.clearFor === undefined ? 0 : state.clearFor + since(state.seenAt, monotonic);
    if (clearFor < durations.keepFiringFor) return { phase: 'firing', startsAt, firedAt, clearFor, seenAt: monotonic };
    return { phase: 'resolved', startsAt, endsAt: Math.max(now, startsAt) };
  }
  if (holds === true) return hold(Math.min(evaluation.since ?? now, now), 0, durations, evaluation);
  // The clock may have been set forward or back.
  return state && Math.abs(now - state.endsAt) < RESOLVED_RETENTION ? state : undefined;
}

/** Removes the time of the last evaluation, because the next process has another monotonic clock. */
export function withoutClock(state: AlertState): AlertState {
  return state.phase === 'resolved' ? state : { ...state, seenAt: undefined };
}
