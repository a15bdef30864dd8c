import { boundText, pathAddress } from '../../kit/text.ts';
import type { DeliveryEvent } from '../../model/message.ts';
import { OTHER } from '../cap.ts';
import type { Routes } from '../routes.ts';
import { createDestinationTally, type DestinationTally } from './tally.ts';

export const DESTINATIONS = ['none', 'host', 'route', 'workflowUrl', 'topic', 'queue', 'label', 'schedule'] as const;
export type DestinationOption = (typeof DESTINATIONS)[number];

export const NONE = '';

const LONGEST = 200;
const MOST_KNOWN = 10_000;
/** A host as URL itself would write it, which takes ten times as long to find it. */
const PLAIN_HOST = /^https?:\/\/([a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*)(?:[/?#]|$)/;

/** Reads the value of the label `destination` from an event, as the option says. */
export function destinationReader(option: DestinationOption, routes: Routes): (event: DeliveryEvent) => string {
  const hostOf = (url: string) => PLAIN_HOST.exec(url)?.[1] ?? URL.parse(url)?.host ?? NONE;
  if (option === 'none') return () => NONE;
  // One text for one destination, however many events name it: it is looked up several times for each.
  const known = new Map<string, string>();
  const same = (name: string) => {
    const first = known.get(name);
    if (first !== undefined) return first;
    if (known.size === MOST_KNOWN) known.clear();
    // A copy: as a part of an address it would keep all of it in memory.
    const copy = Buffer.from(name).toString();
    known.set(copy, copy);
    return copy;
  };
  if (option === 'host') return ({ url }) => (url === undefined ? NONE : same(boundText(hostOf(url), LONGEST)));
  if (option === 'route') return ({ url }) => (url === undefined ? NONE : routes.of(url));
  if (option === 'workflowUrl') {
    return ({ workflowUrl: url }) => (url === undefined ? NONE : same(boundText(pathAddress(url), LONGEST)));
  }
  return event => same(boundText(event[option] ?? NONE, LONGEST));
}

/** Idle time after which a destination gives its place to another, milliseconds. */
const IDLE_AFTER = 86_400_000;
const CHECK_EVERY = 60_000;
/** How long a total that may be resumed is kept, milliseconds. */
const KEPT = 30 * IDLE_AFTER;

export interface Counted {
  readonly row: string;
  readonly tally: DestinationTally;
  /** When it was heard of last, milliseconds since the Unix epoch. */
  heard: number;
  /** A time at which nothing was counted of it yet, shortly before that; undefined: since the log is read. */
  readonly since: number | undefined;
  /** As it was when it was shown last; undefined when it has changed since. */
  copy: ShownTally | undefined;
}

/** Tallies by destination. At most `cap` have a tally of their own at a time; the others count in the remainder. */
export type Destinations = ReturnType<typeof createDestinations>;

export interface ShownTally extends DestinationTally {
  readonly since?: number | undefined;
}

export interface StoredTally extends ShownTally {
  readonly heard: number;
}

const MOST_BEYOND = 10_000;

/** `stored`: rows from before this process. `isNative`: histograms of new destinations have native buckets. */
export function createDestinations(
  option: DestinationOption,
  most: number,
  stored: ReadonlyMap<string, StoredTally>,
  isNative = false,
) {
  const all = new Map<string, Counted>();
  const placed = new Map<string, Counted>();
  const beyond = new Set<string>();
  let readUntil: number | undefined;
  const create = (name: string, tally: DestinationTally, heard: number, since: number | undefined): Counted => {
    const counted = { row: `destination/${option}/${name}`, tally, heard, since, copy: undefined };
    all.set(name, counted);
    return counted;
  };
  for (const [name, { heard, since, ...tally }] of [...stored].sort(([, a], [, b]) => b.heard - a.heard)) {
    const counted = create(name, tally, heard, since);
    if (own() < most || name === OTHER) placed.set(name, counted);
  }
  // Exposed at 0 from the start, so that sums over destinations exist before the first event of a new store.
  place(option === 'none' ? NONE : OTHER);

  function own(): number {
    return placed.size - Number(placed.has(OTHER));
  }

  function place(name: string): Counted {
    const counted = all.get(name) ?? create(name, createDestinationTally(isNative), 0, readUntil);
    placed.set(name, counted);
    return counted;
  }

  /** When a destination may have been silent for long enough, at the earliest. */
  let nextLook = Number.NEGATIVE_INFINITY;

  /** Frees the place of the destination that was silent longest; says whether there is one now. */
  function makePlace(time: number): boolean {
    if (own() < most) return true;
    if (time < nextLook) return false;
    const [idlest] = [...placed]
      .filter(([name, { heard }]) => name !== OTHER && time - heard >= IDLE_AFTER)
      .sort(([, a], [, b]) => a.heard - b.heard);
    if (idlest) placed.delete(idlest[0]);
    else nextLook = time + CHECK_EVERY;
    return idlest !== undefined;
  }

  function find(destination: string, time: number): Counted {
    const known = placed.get(destination);
    if (known) return known;
    // A destination that bears the name of the remainder is part of it.
    if (destination === OTHER) return place(OTHER);
    if (makePlace(time)) {
      beyond.delete(destination);
      return place(destination);
    }
    if (beyond.size < MOST_BEYOND) beyond.add(destination);
    return place(OTHER);
  }

  return {
    /** Tallies of those that have a place, and of the remainder once there is one, as they are now. */
    copies: (): ReadonlyMap<string, ShownTally> =>
      new Map(
        [...placed].map(([name, counted]) => {
          counted.copy ??= { ...structuredClone(counted.tally), since: counted.since };
          return [name, counted.copy];
        }),
      ),
    /** The log was read until `time`, milliseconds since the Unix epoch: what is counted for the first time begins there. */
    readUntil(time: number): void {
      readUntil = time;
    },
    /** Names without a place that were met, as far as they are remembered. */
    get beyond(): number {
      return beyond.size;
    },
    of(destination: string, time: number): Counted {
      const counted = find(destination, time);
      // The caller is about to count.
      counted.copy = undefined;
      if (time > counted.heard) counted.heard = time;
      return counted;
    },
    /** Forgets those without a place that nothing was heard of for a month; gives the keys of their rows. */
    forget(now: number): string[] {
      const old = [...all].filter(([name, { heard }]) => !placed.has(name) && now - heard > KEPT);
      for (const [name] of old) all.delete(name);
      return old.map(([, { row }]) => row);
    },
    stored(name: string): StoredTally | undefined {
      const counted = all.get(name);
      return counted && { ...counted.tally, heard: counted.heard, since: counted.since };
    },
  };
}
