import { hash64 } from '../../kit/hash.ts';
import { recordOf } from '../../kit/record.ts';
import type { CallbackFacts, CallbackSighting } from '../../model/callback.ts';
import type { Change } from '../../model/change.ts';
import { type EntrySelector, selectsEntry } from '../../model/entry-conditions.ts';
import { CALLBACK_ENDS, type CallbackEnd, type DlqEntry } from '../../model/message.ts';
import { Roster } from './roster.ts';

/** Failure callbacks to track, in addition to those reported as in progress. */
export interface CallbackTracking {
  /** Entries to track if the service does not report their callback state. */
  readonly unreported: readonly EntrySelector[];
  /** Maximum time between the starts of two complete walks (ms). A longer gap starts new episodes. */
  readonly maxGap: number;
  /** Interval between two complete walks (ms), if it must be shorter than `rescanEvery`. */
  readonly walkEvery?: number | undefined;
}

export interface TrackerOptions extends Pick<CallbackTracking, 'unreported' | 'maxGap'> {
  /** Returns wall-clock minus monotonic time (ms). A jump means that the clock was set, and starts new episodes. */
  readonly clockOffset?: (() => number) | undefined;
}

export type CallbackTracker = ReturnType<typeof createTracker>;

/** A running walk. It takes effect at `end`: a failed walk changes nothing. */
export type CallbackWalk = ReturnType<CallbackTracker['begin']>;

/** Maximum change of the clock offset between two walks that does not count as a clock step (ms). */
const CLOCK_STEP = 30_000;
export const MAX_SIGHTINGS = 10_000;
/** Maximum total text length of an account's sightings (characters). One sighting usually has a few hundred characters. */
const MAX_TOTAL_TEXT = 16 * 1024 * 1024;
/** Maximum length of a text, and maximum total length of an entry's labels (characters). Longer values count as not reported. */
const MAX_TEXT = 2048;
const MAX_ID = 512;

/** Key of the last complete walk's row, which exists only if there are sightings; also prefix of the sightings' keys. */
const WALK = 'callbacks';
const KEYS = `${WALK}/`;

/** Key of the row of counts by final state, which exists once a callback has ended. */
const ENDED = 'callbacks-ended';

export const isTrackerRow = (key: string) => key === WALK || key === ENDED || key.startsWith(KEYS);

/**
 * One uninterrupted run of a callback. It is stored once and never updated: while it exists, every walk since `firstWalk` has
 * found the callback.
 */
interface Episode {
  readonly firstSeenAt: number;
  readonly firstWalk: number;
  /** Hash of the callback's state and message id. A change starts a new episode. */
  readonly run: string;
}

type StoredEpisode = readonly [firstSeenAt: number, firstWalk: number, run: string];

/** The last complete walk. `at`: its start; `maxGap`: the maximum gap that applied to it. */
type StoredWalk = readonly [at: number, number: number, maxGap: number];

const runOf = ({ callbackState, callbackMessageId }: Pick<DlqEntry, 'callbackState' | 'callbackMessageId'>) =>
  hash64(`${callbackState ?? ''} ${callbackMessageId ?? ''}`).toString(36);

const lengthOf = (values: readonly unknown[]) =>
  values.reduce((sum: number, value) => sum + (typeof value === 'string' ? value.length : 0), 0);

/** Omits overlong texts: a rule must not match a truncated value. */
function bounded(entry: DlqEntry): DlqEntry {
  const tooLong = Object.entries(entry).filter(([, value]) => typeof value === 'string' && value.length > MAX_TEXT);
  const labels = lengthOf(entry.labels) > MAX_TEXT ? [] : entry.labels;
  return { ...entry, ...Object.fromEntries(tooLong.map(([name]) => [name, undefined])), labels };
}

function restored(stored: ReadonlyMap<string, string>) {
  const walk = stored.get(WALK);
  const last = walk === undefined ? undefined : (JSON.parse(walk) as StoredWalk);
  const episodes = new Map<bigint, Episode>();
  for (const [key, value] of stored) {
    if (!key.startsWith(KEYS)) continue;
    const [firstSeenAt, firstWalk, run] = JSON.parse(value) as StoredEpisode;
    episodes.set(BigInt(`0x${key.slice(KEYS.length)}`), { firstSeenAt, firstWalk, run });
  }
  const ended: Readonly<Record<CallbackEnd, number>> = {
    ...recordOf(CALLBACK_ENDS, () => 0),
    ...(JSON.parse(stored.get(ENDED) ?? '{}') as object),
  };
  return { last, episodes, ended };
}

/** Collects the tracked callbacks of one walk. `known`: callbacks with an episode, for which capacity is reserved. */
function createSeen(unreported: CallbackTracking['unreported'], known: ReadonlyMap<bigint, Episode>) {
  const found = new Map<bigint, DlqEntry>();
  /** Entries listed with any callback state. */
  const stated = new Roster();
  /** Ends of runs that the previous walk found in progress, by entry. */
  const ends = new Map<bigint, CallbackEnd>();
  /** Number of callbacks without an episode that this walk may still track. */
  let capacity = MAX_SIGHTINGS - known.size;
  let text = 0;
  let isPartial = false;

  function put(key: bigint, entry: DlqEntry): void {
    const kept = bounded(entry);
    text += lengthOf(Object.values(kept)) + lengthOf(kept.labels);
    const isNew = !known.has(key) && !found.has(key);
    if (text > MAX_TOTAL_TEXT || (isNew && capacity === 0)) {
      isPartial = true;
      found.delete(key);
      return;
    }
    if (isNew) capacity -= 1;
    found.set(key, kept);
  }

  function noteEnd(key: bigint, entry: DlqEntry): void {
    const state = CALLBACK_ENDS.find(end => end === entry.callbackState);
    const episode = state && !ends.has(key) ? known.get(key) : undefined;
    if (state && episode?.run === runOf({ ...bounded(entry), callbackState: 'in_progress' })) ends.set(key, state);
  }

  return {
    found: found as ReadonlyMap<bigint, DlqEntry>,
    ends: ends as ReadonlyMap<bigint, CallbackEnd>,
    add(entry: DlqEntry): void {
      const { id, callbackState } = entry;
      if (callbackState === undefined && !unreported.some(selector => selectsEntry(selector, entry))) return;
      if (id.length > MAX_ID) return;
      const key = hash64(id);
      const other = found.get(key);
      noteEnd(key, entry);
      if (callbackState === undefined) {
        if (!other && !stated.has(key)) put(key, entry);
      } else if (stated.see(key, 0, true) !== 'first') {
        if (other && runOf(other) !== runOf(entry)) found.delete(key);
      } else if (callbackState === 'in_progress') put(key, entry);
      else found.delete(key);
    },
    hasState: (id: string): boolean => stated.has(hash64(id)),
    isPartial: () => isPartial,
    reportsStates: () => stated.size > 0,
  };
}

/** Creates a tracker. `stored`: the committed rows from `drainChanges`. */
export function createTracker(
  { unreported, maxGap, clockOffset = () => 0 }: TrackerOptions,
  stored: ReadonlyMap<string, string> = new Map(),
) {
  let { last, episodes, ended } = restored(stored);
  const changes = new Map<string, string | null>();
  let offset = clockOffset();
  let facts: CallbackFacts | undefined;

  function begin() {
    const beganOffset = clockOffset();
    const seen = createSeen(unreported, episodes);

    function end(at: number): CallbackFacts {
      const [lastAt, lastNumber, lastGap] = last ?? [Number.NEGATIVE_INFINITY, 0, maxGap];
      const lastOffset = offset;
      offset = clockOffset();
      const wasSet = Math.abs(offset - lastOffset) > CLOCK_STEP;
      const wasSetDuringWalk = Math.abs(offset - beganOffset) > CLOCK_STEP;
      // Sightings of a walk that allowed longer gaps may span a gap that is too long now.
      const isUnbroken = !wasSet && at >= lastAt && at - lastAt <= maxGap && lastGap <= maxGap;
      const number = lastNumber + 1;
      const current = new Map<bigint, Episode>();
      const sightings: CallbackSighting[] = [];
      for (const [key, entry] of seen.found) {
        const run = runOf(entry);
        const before = isUnbroken ? episodes.get(key) : undefined;
        const episode = before?.run === run ? before : { firstSeenAt: at, firstWalk: number, run };
        const { firstSeenAt, firstWalk } = episode;
        if (episode !== before) {
          changes.set(KEYS + key.toString(16), JSON.stringify([firstSeenAt, firstWalk, run] satisfies StoredEpisode));
        }
        current.set(key, episode);
        const id = `${firstSeenAt.toString(36)}-${run}`;
        sightings.push({ entry, firstSeenAt, lastSeenAt: at, snapshots: number - firstWalk + 1, episode: id });
      }
      for (const state of seen.ends.values()) ended = { ...ended, [state]: ended[state] + 1 };
      if (seen.ends.size > 0) changes.set(ENDED, JSON.stringify(ended));
      for (const key of episodes.keys()) if (!current.has(key)) changes.set(KEYS + key.toString(16), null);
      // The start of this walk is unreliable if the clock was set: the next walk must not continue this walk's sightings.
      last = [at, number, wasSetDuringWalk ? Number.MAX_VALUE : maxGap];
      if (current.size > 0) changes.set(WALK, JSON.stringify(last satisfies StoredWalk));
      else if (episodes.size > 0) changes.set(WALK, null);
      episodes = current;
      const walks = (facts?.walks ?? 0) + 1;
      facts = { at, walks, maxGap, sightings, isPartial: seen.isPartial(), reportsStates: seen.reportsStates() };
      return facts;
    }

    return {
      /** Adds listed rows. A row listed twice counts once, or not at all if it changed in between. */
      add(rows: readonly DlqEntry[]): void {
        for (const row of rows) seen.add(row);
      },
      hasState: seen.hasState,
      /** Ends a complete walk, and drops the sightings of missing entries. `at`: start of the walk (ms since the Unix epoch). */
      end,
    };
  }

  return {
    begin,
    /** Adds all rows of a complete walk, in any order, and ends it. `at`: start of the walk (ms since the Unix epoch). */
    observe(rows: readonly DlqEntry[], at: number): CallbackFacts {
      const walk = begin();
      walk.add(rows);
      return walk.end(at);
    },
    /** Marks the facts as partial because a walk ended with unreadable rows. */
    markPartial(): void {
      if (facts) facts = { ...facts, isPartial: true };
    },
    /** Returns the immutable facts of the last complete walk; undefined before the first walk of this process. */
    facts: (): CallbackFacts | undefined => facts,
    /** Returns the number of callbacks that were in progress in a complete walk and have ended, by final state. */
    ended: (): Readonly<Record<CallbackEnd, number>> => ended,
    drainChanges(): Change[] {
      const rows = [...changes].map(([key, value]) => ({ key, value }));
      changes.clear();
      return rows;
    },
  };
}
