import { hash64 } from '../../kit/hash.ts';
import type { DlqEntry } from '../../model/message.ts';
import type { FailedFilter } from '../../model/status.ts';
import { type DlqQuery, FilterContradiction } from '../../upstream/api.ts';
import { type Aggregate, addTo, addUnreadable, type Breakdown, createAggregate } from './aggregate.ts';
import type { EnteredLog } from './entered-log.ts';
import type { Roster } from './roster.ts';

export const LEFT_REASONS = ['expired', 'removed', 'unknown'] as const;
export type LeftReason = (typeof LEFT_REASONS)[number];

/** A complete read of a selection that is under way. */
export type WalkId = object;

/** The whole queue, or what one filter selects of it. Changed in place. */
export interface Selection {
  readonly name: string;
  readonly match: DlqQuery;
  /** Begins the keys of its rows; another `match` is another selection. */
  readonly key: string;
  readonly breakdown: Breakdown;
  readonly roster: Roster;
  entered: number;
  readonly left: Record<LeftReason, number>;
  /** It was read completely at least once: what is found from now on has entered. */
  isCounted: boolean;
  /** When that read began, milliseconds since the Unix epoch; undefined before. */
  countedSince: number | undefined;
  /** What the last complete read found, and what entered since; undefined before the first of this process. */
  shown: Aggregate | undefined;
  /** The read that owns the roster's marks and newcomers, and what it has found. */
  walk:
    | { readonly id: WalkId; readonly found: Aggregate; readonly times: number[]; missed: number; rejected: number }
    | undefined;
  /** What the last complete read could not tell; undefined when it could read every row. */
  doubt: Doubt | undefined;
  /** A time from each page of the last complete read, sorted: how the entries lie in time. */
  times: readonly number[];
  /** Of the whole queue, if new entries are logged. */
  readonly log: EnteredLog | undefined;
  failure: FailedFilter | undefined;
  /** Rows of a filter contradicted it, and no complete read has succeeded since then. Nothing of it is shown. */
  isContradicted: boolean;
  isProven: boolean;
  isTouched: boolean;
}

export const isFilter = ({ match }: Selection) => Object.keys(match).length > 0;

/** Ends the complete read `id` of a filter, and notes why it failed. `now`: beginning of the round. */
export function failFilter(filter: Selection, id: WalkId, error: unknown, now: number): void {
  dropWalk(filter, id);
  const { message, reason } = error as Error & { readonly reason: string };
  if (error instanceof FilterContradiction) {
    filter.isTouched ||= !filter.isContradicted;
    filter.isContradicted = true;
    filter.shown = undefined;
  }
  const { name, failure, isContradicted } = filter;
  filter.failure = { name, reason, message, isContradicted, since: Math.min(failure?.since ?? now, now) };
}

export function clearFailure(selection: Selection): void {
  selection.isTouched ||= selection.isContradicted;
  selection.isContradicted = false;
  selection.failure = undefined;
}

/** Withdraws the sizes of filters that have failed for longer than `limit`, milliseconds. */
export function withdrawFilters(filters: readonly Selection[], now: number, limit: number): void {
  for (const filter of filters) if (filter.failure && now - filter.failure.since >= limit) filter.shown = undefined;
}

/** Rows of a complete read that could not be read, and entries that it did not list: any of them may be any of these. */
export interface Doubt {
  readonly at: number;
  rows: number;
  readonly entries: number;
}

/** Entries kept beyond the rows that may be theirs. So many more have surely left, whichever they are. */
const MOST_IN_DOUBT = 10_000;

/** How many it holds: of indistinguishable entries, the rows that are there count, and not the entries that were. */
export const sizeOf = ({ roster, doubt }: Selection) => roster.size + (doubt ? doubt.rows - doubt.entries : 0);

/** When an entry that does not tell when it came was first seen, by this process or one before it. */
const firstSeen = (roster: Roster, id: bigint, { enteredAt }: DlqEntry, now: number) =>
  enteredAt ?? roster.since(id) ?? now;

/** Begins a complete read. What another one saw first that has not ended is forgotten: it failed, or lost its marks. */
export function beginWalk(selection: Selection, id: WalkId): void {
  selection.roster.dropNewcomers();
  selection.roster.clearMarks();
  selection.log?.dropFound();
  selection.walk = { id, found: createAggregate(selection.breakdown), times: [], missed: 0, rejected: 0 };
}

/** A complete read failed: what it saw first may never have been there. */
export function dropWalk(selection: Selection, id: WalkId): void {
  if (selection.walk?.id !== id) return;
  selection.roster.dropNewcomers();
  selection.log?.dropFound();
  selection.walk = undefined;
}

/**
 * Takes in entries that a complete read listed; gives how many of them were not known. They become known when it ends.
 * `now`: milliseconds since the Unix epoch. `wasMissed`: whether a read for new entries should have found the entry.
 */
export function takeInWalk(
  { roster, walk, log, isCounted }: Selection,
  id: WalkId,
  entries: readonly DlqEntry[],
  now: number,
  wasMissed: (entry: DlqEntry) => boolean,
): number {
  // Another complete read has begun meanwhile, and lists all that there is.
  if (walk?.id !== id) return 0;
  let first = 0;
  for (const entry of entries) {
    const id = hash64(entry.id);
    const seen = roster.see(id, entry.enteredAt ?? now, false);
    if (seen !== 'again') addTo(walk.found, entry, firstSeen(roster, id, entry, now));
    if (seen !== 'first') continue;
    first += 1;
    if (isCounted) log?.found(id, entry);
    if (wasMissed(entry)) walk.missed += 1;
  }
  return first;
}

/** Adds entries that a read for new entries listed; gives how many of them were not known. `now`: milliseconds since the Unix epoch. */
export function takeIn(selection: Selection, entries: readonly DlqEntry[], now: number): number {
  const { roster, walk, shown, doubt, log } = selection;
  let first = 0;
  for (const entry of entries) {
    const id = hash64(entry.id);
    const seen = roster.see(id, entry.enteredAt ?? now, true);
    const since = firstSeen(roster, id, entry, now);
    if (walk && (seen === 'first' || seen === 'known')) addTo(walk.found, entry, since);
    if (seen !== 'first' && seen !== 'kept') continue;
    first += 1;
    if (selection.isCounted) log?.entered(id, entry);
    if (!shown) continue;
    addTo(shown, entry, since);
    // It was there when rows could not be read, and was one of them.
    if (!doubt || doubt.rows === 0 || (entry.enteredAt ?? entry.createdAt ?? now) > doubt.at) continue;
    doubt.rows -= 1;
    addUnreadable(shown, -1);
  }
  countEntered(selection, first);
  return first;
}

/** Lets go of the rows that were taken in. */
export function releaseRows({ shown, walk }: Selection): void {
  shown?.ends?.release();
  walk?.found.ends?.release();
}

function countEntered(selection: Selection, entered: number): void {
  if (!selection.isCounted || entered === 0) return;
  selection.entered += entered;
  selection.isTouched = true;
}

/** Makes known what a complete read saw first, in so many chunks of the roster. */
export function keepNewcomers(selection: Selection, id: WalkId, chunks: number): void {
  if (selection.walk?.id !== id) return;
  const { roster, log, isCounted } = selection;
  countEntered(selection, roster.keepNewcomers(chunks, log && isCounted ? id => log.entered(id) : undefined));
}

/**
 * Ends a complete read: entries that it did not list have left. Unreadable rows may be such entries, so they stay until a
 * readable walk. Returns how many have left; does nothing if another complete read has begun. `retention`: of the queue (ms),
 * if known.
 */
export function endWalk(selection: Selection, id: WalkId, now: number, retention: number | undefined): number {
  const { walk, left } = selection;
  if (walk?.id !== id) return 0;
  keepNewcomers(selection, id, Number.POSITIVE_INFINITY);
  const { rejected } = walk;
  let gone = 0;
  const entries = selection.roster.removeUnmarked(
    since => {
      gone += 1;
      if (!selection.isCounted) return;
      const reason = retention === undefined ? 'unknown' : since + retention <= now ? 'expired' : 'removed';
      left[reason] += 1;
    },
    rejected > 0 ? rejected + MOST_IN_DOUBT : 0,
  );
  if (rejected > 0) addUnreadable(walk.found, rejected);
  selection.doubt = rejected > 0 ? { at: now, rows: rejected, entries } : undefined;
  selection.shown = walk.found;
  selection.times = walk.times.sort((a, b) => a - b);
  selection.walk = undefined;
  selection.isTouched ||= gone > 0 || !selection.isCounted;
  // What could not be read has not entered when it can be.
  if (selection.isCounted || rejected > 0) return gone;
  selection.isCounted = true;
  selection.countedSince = now;
  return gone;
}
