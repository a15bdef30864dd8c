import { memoize } from '../../kit/memo.ts';
import { boundText, pathAddress } from '../../kit/text.ts';
import type { DeliveryEvent } from '../../model/message.ts';
import { OTHER } from '../cap.ts';
import type { Routes } from '../routes.ts';
import { createDestinationTally, type DestinationTally } from './tally.ts';

export const DESTINATIONS = ['none', 'host', 'route', 'workflowUrl', 'topic', 'queue', 'label', 'schedule'] as const;
export type DestinationOption = (typeof DESTINATIONS)[number];

export const NONE = '';

const MAX_LENGTH = 200;
/** Maximum total length of the cached addresses (characters). */
const MAX_CACHED = 2 ** 18;

/** Returns a function that maps events to values of the label `destination`. */
export function destinationReader(option: DestinationOption, routes: Routes): (event: DeliveryEvent) => string {
  if (option === 'none') return () => NONE;
  if (option === 'route') return ({ url }) => (url === undefined ? NONE : routes.of(url));
  if (option === 'host' || option === 'workflowUrl') {
    const nameOf = option === 'host' ? (url: string) => URL.parse(url)?.host ?? NONE : pathAddress;
    const cached = memoize(url => boundText(nameOf(url), MAX_LENGTH), MAX_CACHED);
    return ({ url, workflowUrl }) => cached((option === 'host' ? url : workflowUrl) ?? NONE);
  }
  // Each message has one destination: its first label.
  if (option === 'label') return ({ labels }) => boundText(labels?.[0] ?? NONE, MAX_LENGTH);
  return event => boundText(event[option] ?? NONE, MAX_LENGTH);
}

/** Idle time after which a destination may lose its place to another one (ms). */
const IDLE_AFTER = 86_400_000;
const CHECK_EVERY = 60_000;
/** Time for which a destination without a place keeps its tally, so that it can resume (ms). */
const KEPT_FOR = 30 * IDLE_AFTER;

export interface Counted {
  readonly row: string;
  readonly tally: DestinationTally;
  /** Time of the destination's latest event (ms since the Unix epoch). */
  heard: number;
  /** Copy of the tally, as last shown; undefined if the tally has changed since. */
  copy: DestinationTally | undefined;
}

/** Tallies by destination. At most `max` destinations have their own; all others count towards the remainder. */
export type Destinations = ReturnType<typeof createDestinations>;

export interface StoredTally extends DestinationTally {
  readonly heard: number;
}

const MAX_BEYOND = 10_000;

/** Creates tallies by destination. `stored`: rows of an earlier process. */
export function createDestinations(option: DestinationOption, max: number, stored: ReadonlyMap<string, StoredTally>) {
  const all = new Map<string, Counted>();
  const placed = new Map<string, Counted>();
  const beyond = new Set<string>();
  const create = (name: string, tally: DestinationTally, heard: number): Counted => {
    const counted = { row: `destination/${option}/${name}`, tally, heard, copy: undefined };
    all.set(name, counted);
    return counted;
  };
  for (const [name, { heard, ...tally }] of [...stored].sort(([, a], [, b]) => b.heard - a.heard)) {
    const counted = create(name, tally, heard);
    if (own() < max || name === OTHER) placed.set(name, counted);
  }
  // Expose this tally from the start, so that sums over destinations exist before the first event.
  place(option === 'none' ? NONE : OTHER);

  function own(): number {
    return placed.size - Number(placed.has(OTHER));
  }

  function place(name: string): Counted {
    const counted = all.get(name) ?? create(name, createDestinationTally(), 0);
    placed.set(name, counted);
    return counted;
  }

  let nextCheck = Number.NEGATIVE_INFINITY;

  /** Returns whether a place is free. If necessary, frees the place of the destination that has been idle longest. */
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

  function find(destination: string, time: number): Counted {
    const known = placed.get(destination);
    if (known) return known;
    // A destination named `__other__` is merged into the remainder.
    if (destination === OTHER) return place(OTHER);
    if (makePlace(time)) {
      beyond.delete(destination);
      return place(destination);
    }
    if (beyond.size < MAX_BEYOND) beyond.add(destination);
    return place(OTHER);
  }

  return {
    /** Returns copies of all tallies with a place, including the remainder. */
    copies: (): ReadonlyMap<string, DestinationTally> =>
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
    of(destination: string, time: number): Counted {
      const counted = find(destination, time);
      // Invalidate the copy, because the caller changes the tally.
      counted.copy = undefined;
      if (time > counted.heard) counted.heard = time;
      return counted;
    },
    /** Deletes destinations that have no place and have had no events for a month. Returns the keys of their rows. */
    evict(now: number): string[] {
      const old = [...all].filter(([name, { heard }]) => !placed.has(name) && now - heard > KEPT_FOR);
      for (const [name] of old) all.delete(name);
      return old.map(([, { row }]) => row);
    },
    stored(name: string): StoredTally | undefined {
      const counted = all.get(name);
      return counted && { ...counted.tally, heard: counted.heard };
    },
  };
}
