/** How fresh a round's data is, in milliseconds of the monotonic clock. */
export interface Freshness {
  /** Since the last complete round ended; where none ever did, since agents began to try. */
  readonly age: number;
  /** How long agents have been trying to complete another; undefined while they succeed. */
  readonly tryingFor?: number | undefined;
  /** How long the last complete one took, where that is longer than its interval. */
  readonly took?: number | undefined;
}

/** The same as it outlasts the process, in wall time: the only clock that the next process shares. */
interface StoredFreshness {
  readonly completeAt: number;
  readonly tryingSince?: number | undefined;
  readonly took?: number | undefined;
}

export type StoredRounds = Readonly<Record<string, StoredFreshness>>;

const mapValues = <A, B>(of: Readonly<Record<string, A>>, map: (value: A) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(of).map(([key, value]) => [key, map(value)]));

export const toStored = (rounds: Readonly<Record<string, Freshness>>, now: number): StoredRounds =>
  mapValues(rounds, ({ age, tryingFor, took }) => ({
    completeAt: Math.round(now - age),
    tryingSince: tryingFor === undefined ? undefined : Math.round(now - tryingFor),
    took,
  }));

/** And back. Nothing is younger than now because the clock was set back meanwhile. */
export const fromStored = (rounds: StoredRounds, now: number): Readonly<Record<string, Freshness>> =>
  mapValues(rounds, ({ completeAt, tryingSince, took }) => ({
    age: Math.max(0, now - completeAt),
    tryingFor: tryingSince === undefined ? undefined : Math.max(0, now - tryingSince),
    took,
  }));
