import { hash64 } from '../../kit/hash.ts';
import type { CallbackFacts, CallbackSighting } from '../../model/callback.ts';
import type { Change } from '../../model/change.ts';
import type { DlqEntry } from '../../model/message.ts';
import { createRoster } from './roster.ts';

export interface TrackerOptions {
  /** Whether an entry is tracked of whose failure callback the service says nothing. */
  track(entry: DlqEntry): boolean;
  /** Milliseconds between the beginnings of two complete walks; after more than that, every sighting starts over. */
  readonly maxGap: number;
  /** Wall time less monotonic time, milliseconds. Where it jumps, the time between two walks is not what it seems: every sighting starts over. */
  readonly clockOffset?: () => number;
}

/** What complete walks saw of failure callbacks, across restarts. Without clock and IO: a walk that fails is just never ended. */
export type CallbackTracker = ReturnType<typeof createTracker>;

/** A running walk. Its sightings count when it has ended. */
export type CallbackWalk = ReturnType<CallbackTracker['begin']>;

/** Difference between wall and monotonic time between two walks, milliseconds, above which the clock was set. */
const CLOCK_STEP = 30_000;
/** Sightings of one account: a service that lists more has worse trouble than stuck callbacks, or is hostile. */
export const MOST_SIGHTINGS = 10_000;
/** Characters of all sightings of one account together: an entry usually has some hundreds. */
const MOST_TEXT = 16 * 1024 * 1024;
/** A longer text, or labels that are longer together, counts as not reported. */
const LONGEST_TEXT = 2048;
const LONGEST_ID = 512;

/** Key of the row with the last complete walk, and the beginning of the keys of the sightings. There is none without sightings. */
const WALK = 'callbacks';
const KEYS = `${WALK}/`;

export const isTrackerRow = (key: string) => key === WALK || key.startsWith(KEYS);

/** One run of a callback, written once. It is seen by every walk from its first to the last, so those need no counting. */
interface Episode {
  readonly firstSeenAt: number;
  readonly firstWalk: number;
  /** Stands for what must stay as it is: whether the state is reported, and the callback's message. */
  readonly run: string;
}

type StoredEpisode = readonly [firstSeenAt: number, firstWalk: number, run: string];

/** The last complete walk, its number, and the longest pause that was allowed. */
type StoredWalk = readonly [at: number, number: number, maxGap: number];

const runOf = ({ callbackState, callbackMessageId }: DlqEntry) =>
  hash64(`${callbackState ?? ''} ${callbackMessageId ?? ''}`).toString(36);

const isSameRun = (a: DlqEntry, b: DlqEntry) =>
  a.callbackState === b.callbackState && a.callbackMessageId === b.callbackMessageId;

const lengthOf = (values: readonly unknown[]) =>
  values.reduce((sum: number, value) => sum + (typeof value === 'string' ? value.length : 0), 0);

/** A hostile service's texts are left out rather than cut: a rule must not take the beginning for the whole. */
function bounded(entry: DlqEntry): DlqEntry {
  const tooLong = Object.entries(entry).filter(([, value]) => typeof value === 'string' && value.length > LONGEST_TEXT);
  const labels = lengthOf(entry.labels) > LONGEST_TEXT ? [] : entry.labels;
  return { ...entry, ...Object.fromEntries(tooLong.map(([name]) => [name, undefined])), labels };
}

/** `stored`: the rows of `takeChanges` as they were last committed. */
export function createTracker(
  { track, maxGap, clockOffset = () => 0 }: TrackerOptions,
  stored: ReadonlyMap<string, string> = new Map(),
) {
  const storedWalk = stored.get(WALK);
  let last = storedWalk === undefined ? undefined : (JSON.parse(storedWalk) as StoredWalk);
  let episodes = new Map<bigint, Episode>();
  for (const [key, value] of stored) {
    if (!key.startsWith(KEYS)) continue;
    const [firstSeenAt, firstWalk, run] = JSON.parse(value) as StoredEpisode;
    episodes.set(BigInt(`0x${key.slice(KEYS.length)}`), { firstSeenAt, firstWalk, run });
  }
  const changes = new Map<string, string | null>();
  let offset = clockOffset();
  let facts: CallbackFacts | undefined;

  function begin() {
    const beganOffset = clockOffset();
    const found = new Map<bigint, DlqEntry>();
    /** Entries whose callback's state was listed, whatever it was. */
    const stated = createRoster();
    /** Those that are known keep their places. */
    let room = MOST_SIGHTINGS - episodes.size;
    let text = 0;
    let isPartial = false;

    function put(key: bigint, entry: DlqEntry): void {
      const kept = bounded(entry);
      text += lengthOf(Object.values(kept)) + lengthOf(kept.labels);
      const needsRoom = !episodes.has(key) && !found.has(key);
      if (text > MOST_TEXT || (needsRoom && room === 0)) {
        isPartial = true;
        found.delete(key);
        return;
      }
      if (needsRoom) room -= 1;
      found.set(key, kept);
    }

    function takeOne(entry: DlqEntry): void {
      const { id, callbackState } = entry;
      if (callbackState === undefined && !track(entry)) return;
      if (id.length > LONGEST_ID) return;
      const key = hash64(id);
      const other = found.get(key);
      if (callbackState === undefined) {
        if (!other && !stated.has(key)) put(key, entry);
      } else if (stated.see(key, 0, true) !== 'first') {
        if (other && !isSameRun(other, entry)) found.delete(key);
      } else if (callbackState === 'in_progress') put(key, entry);
      else found.delete(key);
    }

    function end(at: number): CallbackFacts {
      const [lastAt, lastNumber, lastGap] = last ?? [Number.NEGATIVE_INFINITY, 0, maxGap];
      const lastOffset = offset;
      offset = clockOffset();
      const wasSet = Math.abs(offset - lastOffset) > CLOCK_STEP;
      const wasSetMeanwhile = Math.abs(offset - beganOffset) > CLOCK_STEP;
      // What a longer pause was allowed in does not count where only a shorter one is.
      const isUnbroken = !wasSet && at >= lastAt && at - lastAt <= maxGap && lastGap <= maxGap;
      const number = lastNumber + 1;
      const current = new Map<bigint, Episode>();
      const sightings: CallbackSighting[] = [];
      for (const [key, entry] of found) {
        const run = runOf(entry);
        const before = isUnbroken ? episodes.get(key) : undefined;
        const episode = before?.run === run ? before : { firstSeenAt: at, firstWalk: number, run };
        const { firstSeenAt, firstWalk } = episode;
        if (episode !== before) {
          changes.set(KEYS + key.toString(16), JSON.stringify([firstSeenAt, firstWalk, run] satisfies StoredEpisode));
        }
        current.set(key, episode);
        sightings.push({
          entry,
          firstSeenAt,
          lastSeenAt: at,
          snapshots: number - firstWalk + 1,
          episode: `${firstSeenAt.toString(36)}-${run}`,
        });
      }
      for (const key of episodes.keys()) if (!current.has(key)) changes.set(KEYS + key.toString(16), null);
      // Its beginning is by another clock: nothing may count from it.
      last = [at, number, wasSetMeanwhile ? Number.MAX_VALUE : maxGap];
      if (current.size > 0) changes.set(WALK, JSON.stringify(last satisfies StoredWalk));
      else if (episodes.size > 0) changes.set(WALK, null);
      episodes = current;
      const walks = (facts?.walks ?? 0) + 1;
      facts = { at, walks, sightings, isPartial, reportsStates: stated.size > 0 };
      return facts;
    }

    return {
      /** Adds listed rows. A row that is listed twice counts once, and not at all if it changed in between. */
      take(rows: readonly DlqEntry[]): void {
        for (const row of rows) takeOne(row);
      },
      hasState: (id: string): boolean => stated.has(hash64(id)),
      /** Ends a complete walk: missing entries have left. `at`: its start (ms since the Unix epoch). */
      end,
    };
  }

  return {
    begin,
    /** A complete walk at once: all rows of it, in any order. `at`: when it began, milliseconds since the Unix epoch. */
    observe(rows: readonly DlqEntry[], at: number): CallbackFacts {
      const walk = begin();
      walk.take(rows);
      return walk.end(at);
    },
    /** A walk came to its end and could not read every row. It says nothing of callbacks; what is known of them is not the whole. */
    doubt(): void {
      if (facts) facts = { ...facts, isPartial: true };
    },
    /** What the last complete walk found; undefined before the first of this process. Never changed afterwards. */
    facts: (): CallbackFacts | undefined => facts,
    takeChanges(): Change[] {
      const rows = [...changes].map(([key, value]) => ({ key, value }));
      changes.clear();
      return rows;
    },
  };
}
