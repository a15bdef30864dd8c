import { boundText } from '../../kit/text.ts';
import type { Change } from '../../model/change.ts';
import type { DlqEntry } from '../../model/message.ts';
import { OTHER } from '../cap.ts';
import { createTallies, type Stored } from '../tallies.ts';
import { NO_VALUE } from './kinds.ts';

interface HostTally {
  entered: number;
}

/** Entries of a queue that were counted as new, by host. */
export type EnteredHosts = ReturnType<typeof createEnteredHosts>;

const KEYS = 'host/';
const MAX_LENGTH = 200;

export const isHostRow = (key: string) => key.startsWith(KEYS);

export const hostOfDestination = ({ url = '' }: Pick<DlqEntry, 'url'>): string =>
  boundText(URL.parse(url)?.host || NO_VALUE, MAX_LENGTH);

/** `max`: number of hosts with their own series; `rows`: the committed rows from `drainChanges`. */
export function createEnteredHosts(max: number, rows: ReadonlyMap<string, string> = new Map()) {
  const stored = [...rows]
    .filter(([key]) => isHostRow(key))
    .map(([key, value]) => [key.slice(KEYS.length), JSON.parse(value) as Stored<HostTally>] as const);
  const tallies = createTallies({ prefix: KEYS, max, first: OTHER, create: () => ({ entered: 0 }) }, new Map(stored));
  const touched = new Set<string>();
  return {
    /** Adds entries. `now`: start of the round (ms since the Unix epoch). */
    add(host: string, now: number, entries = 1): void {
      const { row, tally } = tallies.of(host, now);
      tally.entered += entries;
      touched.add(row);
    },
    evict(now: number): void {
      for (const row of tallies.evict(now)) touched.add(row);
    },
    counts: (): ReadonlyMap<string, number> =>
      new Map([...tallies.copies()].map(([host, { entered }]) => [host, entered])),
    beyond: (): number => tallies.beyond,
    drainChanges(): Change[] {
      const changes = [...touched].map(key => {
        const tally = tallies.stored(key.slice(KEYS.length));
        return { key, value: tally ? JSON.stringify(tally) : null };
      });
      touched.clear();
      return changes;
    },
  };
}
