import { hash64 } from '../../kit/hash64.ts';
import type { DlqEntry } from '../../model/message.ts';
import type { DlqQuery } from '../../upstream/api.ts';
import { type Aggregate, addTo, addUnreadable, createAggregate, type Dimension } from './aggregate.ts';
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
  readonly dimensions: readonly Dimension[];
  readonly roster: Roster;
  entered: number;
  readonly left: Record<LeftReason, number>;
  /** It was read completely at least once: what is found from now on has entered. */
  isCounted: boolean;
  /** What the last complete read found, and what entered since; undefined before the first of this process. */
  shown: Aggregate | undefined;
  /** The read that owns the roster's marks, and what it has found. */
  walk: { readonly id: WalkId; readonly found: Aggregate; readonly times: number[]; rejected: number } | undefined;
  /** What the last complete read could not tell; undefined when it could read every row. */
  doubt: Doubt | undefined;
  /** A time from each page of the last complete read, sorted: how the entries lie in time. */
  times: readonly number[];
  /** Its state is to be written with the next commit. */
  isTouched: boolean;
}

/** Rows of a complete read that could not be read, and entries that it did not list: any of them may be any of these. */
export interface Doubt {
  /** When it began, milliseconds since the Unix epoch. */
  readonly at: number;
  rows: number;
  readonly entries: number;
}

/** Entries kept beyond the rows that may be theirs. So many more have surely left, whichever they are. */
const MOST_IN_DOUBT = 10_000;

/** How many it holds: of what can't be told apart, the rows that are there count, and not the entries that were. */
export const sizeOf = ({ roster, doubt }: Selection) => roster.size + (doubt ? doubt.rows - doubt.entries : 0);

export function beginWalk(selection: Selection, id: WalkId): void {
  selection.roster.clearMarks();
  selection.walk = { id, found: createAggregate(selection.dimensions), times: [], rejected: 0 };
}

/** Takes in entries that were listed; gives how many of them were not known. `now`: milliseconds since the Unix epoch. */
export function takeIn(
  selection: Selection,
  entries: readonly DlqEntry[],
  now: number,
  onFirst: (entry: DlqEntry) => void,
): number {
  const { roster, walk, shown, doubt } = selection;
  let first = 0;
  for (const entry of entries) {
    const seen = roster.see(hash64(entry.id), entry.enteredAt ?? now);
    if (walk && seen !== 'again') addTo(walk.found, entry, now);
    if (seen !== 'first') continue;
    first += 1;
    onFirst(entry);
    if (!shown) continue;
    addTo(shown, entry, now);
    // It was there when rows could not be read, and was one of them.
    if (!doubt || doubt.rows === 0 || (entry.enteredAt ?? entry.createdAt ?? now) > doubt.at) continue;
    doubt.rows -= 1;
    addUnreadable(shown, -1);
  }
  if (selection.isCounted && first > 0) {
    selection.entered += first;
    selection.isTouched = true;
  }
  return first;
}

/**
 * Ends a complete read: whoever it did not list has left. Where rows could not be read, any of those may be one of them:
 * they stay until a read that could. Gives how many have left; nothing happens when another complete read has begun
 * meanwhile. `retention`: milliseconds that the queue keeps entries, where that is known.
 */
export function endWalk(selection: Selection, id: WalkId, now: number, retention: number | undefined): number {
  const { walk, left } = selection;
  if (walk?.id !== id) return 0;
  const { rejected } = walk;
  let gone = 0;
  selection.roster.removeUnmarked(
    since => {
      gone += 1;
      if (!selection.isCounted) return;
      left[retention === undefined ? 'unknown' : since + retention <= now ? 'expired' : 'removed'] += 1;
    },
    rejected > 0 ? rejected + MOST_IN_DOUBT : 0,
  );
  if (rejected > 0) addUnreadable(walk.found, rejected);
  selection.doubt = rejected > 0 ? { at: now, rows: rejected, entries: selection.roster.unmarked() } : undefined;
  selection.shown = walk.found;
  selection.times = walk.times.sort((a, b) => a - b);
  selection.walk = undefined;
  selection.isTouched ||= gone > 0 || !selection.isCounted;
  // What could not be read has not entered when it can be.
  selection.isCounted ||= rejected === 0;
  return gone;
}
