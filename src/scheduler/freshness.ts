/** Freshness of a round's data (ms by the monotonic clock). */
export interface Freshness {
  /** Time since the end of the last complete round, or since the first attempt if no round was complete. */
  readonly age: number;
  /** Duration of the attempts to complete another round; undefined while rounds succeed. */
  readonly tryingFor?: number | undefined;
  /** Duration of the last complete round, if longer than its interval. */
  readonly took?: number | undefined;
}

/** Freshness as stored, in wall time: the only clock shared with the next process. */
export type StoredRounds = Readonly<
  Record<string, Pick<Freshness, 'took'> & { readonly completeAt: number; readonly tryingSince?: number | undefined }>
>;

const mapValues = <A, B>(of: Readonly<Record<string, A>>, map: (value: A) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(of).map(([key, value]) => [key, map(value)]));

export const toStored = (rounds: Readonly<Record<string, Freshness>>, now: number): StoredRounds =>
  mapValues(rounds, ({ age, tryingFor, took }) => ({
    completeAt: Math.round(now - age),
    tryingSince: tryingFor === undefined ? undefined : Math.round(now - tryingFor),
    took,
  }));

/** Converts stored freshness. Clamps ages to 0 if the clock was set back. */
export const fromStored = (rounds: StoredRounds, now: number): Readonly<Record<string, Freshness>> =>
  mapValues(rounds, ({ completeAt, tryingSince, took }) => ({
    age: Math.max(0, now - completeAt),
    tryingFor: tryingSince === undefined ? undefined : Math.max(0, now - tryingSince),
    took,
  }));
