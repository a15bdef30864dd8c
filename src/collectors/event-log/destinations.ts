import { BoundedMap } from '../../kit/bounded-map.ts';
import { boundText } from '../../kit/bounded-text.ts';
import type { DeliveryEvent } from '../../model/message.ts';
import { OTHER } from '../cap.ts';
import { createDestinationTally, type DestinationTally } from './tally.ts';

export const DESTINATIONS = ['none', 'host', 'topic', 'queue', 'label'] as const;
export type DestinationOption = (typeof DESTINATIONS)[number];

/** What stands for a destination that an event does not name. */
export const NONE = '';

const LONGEST = 200;
const HOSTS_REMEMBERED = 10_000;

/** Reads the value of the label `destination` from an event, as the option says. */
export function destinationReader(option: DestinationOption): (event: DeliveryEvent) => string {
  const hosts = new BoundedMap<string, string>(HOSTS_REMEMBERED);
  function hostOf(url: string): string {
    const known = hosts.get(url);
    if (known !== undefined) return known;
    const host = boundText(URL.parse(url)?.host ?? NONE, LONGEST);
    hosts.set(url, host);
    return host;
  }
  if (option === 'none') return () => NONE;
  if (option === 'host') return ({ url }) => (url === undefined ? NONE : hostOf(url));
  return event => boundText(event[option] ?? NONE, LONGEST);
}

/** A destination that is not heard of for so long gives its place to another, milliseconds. */
const IDLE_AFTER = 86_400_000;
const LOOK_EVERY = 60_000;

/** Tallies by destination. At most so many have a place of their own at a time; what the others do is the remainder's. */
export interface Destinations {
  /** Of those that have a place, and of the remainder once there is one. */
  readonly placed: ReadonlyMap<string, DestinationTally>;
  /** Names without a place that were met, as far as they are remembered. */
  readonly beyond: number;
  /** The tally that counts for a destination now, and the key of its row. It is given a place when one is free at `time`, milliseconds. */
  of(destination: string, time: number): { readonly row: string; readonly tally: DestinationTally };
  /** What was counted for a name, with a place or without, and when it was last heard of. */
  tally(name: string): DestinationTally | undefined;
  heard(name: string): number;
}

/** More names than this are not told apart. */
const MOST_BEYOND = 10_000;

/** `stored`: tallies from before this process, with the time at which each was last heard of. */
export function createDestinations(
  option: DestinationOption,
  most: number,
  stored: ReadonlyMap<string, { readonly heard: number; readonly tally: DestinationTally }>,
): Destinations {
  const tallies = new Map<string, DestinationTally>();
  const heard = new Map<string, number>();
  const placed = new Map<string, DestinationTally>();
  const beyond = new Set<string>();
  for (const [name, { tally, heard: at }] of [...stored].sort(([, a], [, b]) => b.heard - a.heard)) {
    tallies.set(name, tally);
    heard.set(name, at);
    if (own() < most || name === OTHER) placed.set(name, tally);
  }
  // Where destinations are no label, the one tally there is starts at 0.
  if (option === 'none') tallyOf(NONE);

  function own(): number {
    return placed.size - Number(placed.has(OTHER));
  }

  /** When somebody may have been silent for long enough, at the earliest. */
  let nextLook = Number.NEGATIVE_INFINITY;

  /** Takes the place of whoever was silent for long; says whether there is one now. */
  function makePlace(time: number): boolean {
    if (own() < most) return true;
    if (time < nextLook) return false;
    nextLook = time + LOOK_EVERY;
    let idlest: string | undefined;
    for (const name of placed.keys()) {
      if (name === OTHER || time - (heard.get(name) ?? 0) < IDLE_AFTER) continue;
      if (idlest === undefined || (heard.get(name) ?? 0) < (heard.get(idlest) ?? 0)) idlest = name;
    }
    if (idlest !== undefined) placed.delete(idlest);
    return idlest !== undefined;
  }

  function tallyOf(name: string): DestinationTally {
    const tally = tallies.get(name) ?? createDestinationTally();
    tallies.set(name, tally);
    placed.set(name, tally);
    return tally;
  }

  return {
    placed,
    get beyond() {
      return beyond.size;
    },
    of(destination, time) {
      let name = destination;
      // A destination that bears the name of the remainder is part of it.
      if (destination !== OTHER && !placed.has(destination)) {
        if (makePlace(time)) beyond.delete(destination);
        else {
          if (beyond.size < MOST_BEYOND) beyond.add(destination);
          name = OTHER;
        }
      }
      heard.set(name, Math.max(time, heard.get(name) ?? 0));
      return { row: `destination/${option}/${name}`, tally: placed.get(name) ?? tallyOf(name) };
    },
    tally: name => tallies.get(name),
    heard: name => heard.get(name) ?? 0,
  };
}
