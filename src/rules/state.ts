/**
 * State of one alert; inactive ones have none. Durations are counted on the monotonic clock between two evaluations with the
 * same result: unknown time and time without an agent do not count. Times: milliseconds, `startsAt` and `endsAt` since the
 * Unix epoch.
 */
export type AlertState =
  | {
      readonly phase: 'pending';
      /** How long the condition is known to have held. */
      readonly heldFor: number;
      /** When the last evaluation said that it held; undefined when it did not know, and after a restart. */
      readonly seenAt?: number | undefined;
    }
  | {
      readonly phase: 'firing';
      readonly startsAt: number;
      /** How long the condition is known not to have held any more; undefined while it holds. */
      readonly clearFor?: number | undefined;
      readonly seenAt?: number | undefined;
    }
  | { readonly phase: 'resolved'; readonly startsAt: number; readonly endsAt: number };

/** How long a condition must hold or be clear, milliseconds. */
export interface Durations {
  readonly for: number;
  readonly keepFiringFor: number;
}

/** Result of a condition. `now`: milliseconds since the Unix epoch; `monotonic`: milliseconds on a clock that never goes back. */
export interface Evaluation {
  readonly holds: boolean | 'unknown';
  /** For how many milliseconds it is known to have held, where evaluations are not all that tells. */
  readonly heldFor?: number | undefined;
  readonly now: number;
  readonly monotonic: number;
}

/** How long a resolved alert is sent again, milliseconds, as Prometheus does: a receiver may have missed it. */
const RESOLVED_RETENTION = 15 * 60_000;

const since = (seenAt: number | undefined, now: number) => (seenAt === undefined ? 0 : now - seenAt);

function hold(heldFor: number, durations: Durations, { now, monotonic, heldFor: known = 0 }: Evaluation): AlertState {
  const longest = Math.max(heldFor, known);
  return longest >= durations.for
    ? { phase: 'firing', startsAt: now }
    : { phase: 'pending', heldFor: longest, seenAt: monotonic };
}

/** What becomes of an alert by one evaluation; undefined: it is inactive. What is unknown neither fires nor resolves. */
export function advance(
  state: AlertState | undefined,
  durations: Durations,
  evaluation: Evaluation,
): AlertState | undefined {
  const { holds, now, monotonic } = evaluation;
  if (state?.phase === 'pending') {
    if (holds === 'unknown') return { ...state, seenAt: undefined };
    if (!holds) return undefined;
    return hold(state.heldFor + since(state.seenAt, monotonic), durations, evaluation);
  }
  if (state?.phase === 'firing') {
    const { startsAt } = state;
    if (holds === 'unknown') return { ...state, seenAt: undefined };
    if (holds) return { phase: 'firing', startsAt };
    const clearFor = state.clearFor === undefined ? 0 : state.clearFor + since(state.seenAt, monotonic);
    if (clearFor < durations.keepFiringFor) return { phase: 'firing', startsAt, clearFor, seenAt: monotonic };
    return { phase: 'resolved', startsAt, endsAt: Math.max(now, startsAt) };
  }
  if (holds === true) return hold(0, durations, evaluation);
  // Whichever way the clock was set meanwhile.
  return state && Math.abs(now - state.endsAt) < RESOLVED_RETENTION ? state : undefined;
}

/** A state as it outlasts the process: the next one has another monotonic clock, and can't know what was true meanwhile. */
export function withoutClock(state: AlertState): AlertState {
  return state.phase === 'resolved' ? state : { ...state, seenAt: undefined };
}
