import { OTHER } from './cap.ts';

/** Idle time after which a name may lose its place to another name (ms). */
const IDLE_AFTER = 86_400_000;
const CHECK_EVERY = 60_000;
/** Time for which a name without a place keeps its tally, so that it can resume (ms). */
const KEPT_FOR = 30 * IDLE_AFTER;

interface Counted<T> {
  readonly row: string;
  readonly tally: T;
  /** Time of the latest event (ms since the Unix epoch). */
  heard: number;
  /** Copy of the tally, as last shown; undefined if the tally has changed since. */
  copy: T | undefined;
}

export type Stored<T> = T & { readonly heard: number };

interface TalliesOptions<T> {
  readonly prefix: string;
  readonly max: number;
  /** Label value of a series that is 0 from the start, so that `sum()` returns a value before the first event. */
  readonly first: string;
  readonly create: () => T;
}

const MAX_BEYOND = 10_000;

/**
 * Creates tallies by name. At most `max` names have their own; all others count towards the remainder, which never decreases.
 * `stored`: rows of an earlier process.
 */
export function createTallies<T extends object>(
  { prefix, max, first, create: createTally }: TalliesOptions<T>,
  stored: ReadonlyMap<string, Stored<T>>,
) {
  const all = new Map<string, Counted<T>>();
  const placed = new Map<string, Counted<T>>();
  const beyond = new Set<string>();
  const create = (name: string, tally: T, heard: number): Counted<T> => {
    const counted = { row: prefix + name, tally, heard, copy: undefined };
    all.set(name, counted);
    return counted;
  };
  for (const [name, { heard, ...tally }] of [...stored].sort(([, a], [, b]) => b.heard - a.heard)) {
    const counted = create(name, tally as unknown as T, heard);
    if (own() < max || name === OTHER) placed.set(name, counted);
  }
  place(first);

  function own(): number {
    return placed.size - Number(placed.has(OTHER));
  }

  function place(name: string): Counted<T> {
    const counted = all.get(name) ?? create(name, createTally(), 0);
    placed.set(name, counted);
    return counted;
  }

  let nextCheck = Number.NEGATIVE_INFINITY;

  /** Returns whether a place is free. If necessary, frees the place of the name that has been idle longest. */
  function makePlace(time: number): boolean {
    if (own() < max) return true;
    if (time < nextCheck) return false;
    const [idlest] = [...placed]
      .filter(([name, { heard }]) => name !== OTHER && time - heard >= IDLE_AFTER)
      .sort(([, a], [, b]) => a.heard - b.heard);
    if (idlest) placed.delete(idlest[0]);
    else nextCheck = time + CHECK_EVERY;
    return idlest !== undefined;
  }

  function find(name: string, time: number): Counted<T> {
    const known = placed.get(name);
    if (known) return known;
    // A name `__other__` is merged into the remainder.
    if (name === OTHER) return place(OTHER);
    if (makePlace(time)) {
      beyond.delete(name);
      return place(name);
    }
    if (beyond.size < MAX_BEYOND) beyond.add(name);
    return place(OTHER);
  }

  return {
    /** Returns copies of all separate tallies and of the remainder. */
    copies: (): ReadonlyMap<string, T> =>
      new Map(
        [...placed].map(([name, counted]) => {
          counted.copy ??= structuredClone(counted.tally);
          return [name, counted.copy];
        }),
      ),
    /** Number of names without a place, at most `MAX_BEYOND`. */
    get beyond(): number {
      return beyond.size;
    },
    of(name: string, time: number): Counted<T> {
      const counted = find(name, time);
      // Invalidate the copy, because the caller changes the tally.
      counted.copy = undefined;
      if (time > counted.heard) counted.heard = time;
      return counted;
    },
    /** Deletes names that have no place and have had no events for a month. Returns the keys of their rows. */
    evict(now: number): string[] {
      const old = [...all].filter(([name, { heard }]) => !placed.has(name) && now - heard > KEPT_FOR);
      for (const [name] of old) all.delete(name);
      return old.map(([, { row }]) => row);
    },
    stored(name: string): Stored<T> | undefined {
      const counted = all.get(name);
      return counted && { ...counted.tally, heard: counted.heard };
    },
  };
}
