import { hash64 } from '../../kit/hash.ts';
import type { DlqEntry } from '../../model/message.ts';
import type { FailedFilter } from '../../model/status.ts';
import { type DlqQuery, FilterContradiction } from '../../upstream/api.ts';
import { OTHER } from '../cap.ts';
import { type Aggregate, addTo, addUnreadable, type Breakdown, createAggregate, MAX_VALUES } from './aggregate.ts';
import { type EnteredHosts, type EnteredLog, hostOfDestination } from './entered.ts';
import type { Roster } from './roster.ts';

export const LEFT_REASONS = ['expired', 'removed', 'unknown'] as const;
export type LeftReason = (typeof LEFT_REASONS)[number];

export type WalkId = object;

/** The whole queue or the part that a filter selects. */
export interface Selection {
  readonly name: string;
  readonly match: DlqQuery;
  /** Prefix of the selection's store keys, derived from its name and `match`. */
  readonly key: string;
  readonly breakdown: Breakdown;
  readonly roster: Roster;
  entered: number;
  readonly left: Record<LeftReason, number>;
  /** Whether a complete read without unreadable rows has succeeded. Entries found later count as entered. */
  isCounted: boolean;
  /** Entries of the last complete read and those added since; undefined before the first one of this process. */
  shown: Aggregate | undefined;
  /** The complete read in progress, and its results. It owns the roster's marks and newcomers. */
  walk:
    | {
        readonly id: WalkId;
        readonly found: Aggregate;
        readonly times: number[];
        readonly hosts: Map<string, number>;
        hasUntimed: boolean;
        missed: number;
        rejected: number;
      }
    | undefined;
  ambiguity: Ambiguity | undefined;
  /** One time from each page of the last complete read, sorted: the approximate distribution of entries. */
  times: readonly number[];
  /** Whether the last complete read listed an entry without the time that the service compares with dates. */
  hasUntimed: boolean;
  /** Number of complete reads since the process started. */
  walks: number;
  /** Log of new entries. Undefined for filters, and if new entries are not logged. */
  readonly log: EnteredLog | undefined;
  /** Counts of new entries by host; undefined for filters. */
  readonly hosts: EnteredHosts | undefined;
  failure: FailedFilter | undefined;
  /** Whether rows contradicted the filter, and no complete read has succeeded since. The filter is then not shown. */
  isContradicted: boolean;
  /** Whether every row of the filter contains all fields of its `match` and matches. */
  isProven: boolean;
  isTouched: boolean;
}

export const isFilter = ({ match }: Selection) => Object.keys(match).length > 0;

/** Ends the complete read `id` of a filter with an error. `now`: start of the round. */
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

/** Withdraws the sizes of filters that have failed for at least `limit` (ms). */
export function withdrawFilters(filters: readonly Selection[], now: number, limit: number): void {
  for (const filter of filters) if (filter.failure && now - filter.failure.since >= limit) filter.shown = undefined;
}

/** Unreadable rows of a complete read, and known entries missing from it. Each unreadable row may be any of these entries. */
export interface Ambiguity {
  readonly at: number;
  rows: number;
  readonly entries: number;
}

/** Maximum number of missing entries that are kept in addition to one per unreadable row. */
const MAX_AMBIGUOUS = 10_000;

/** Returns the number of entries. Counts unreadable rows instead of the missing entries that they may be. */
export const sizeOf = ({ roster, ambiguity }: Selection) =>
  roster.size + (ambiguity ? ambiguity.rows - ambiguity.entries : 0);

const firstSeen = (roster: Roster, id: bigint, { enteredAt }: DlqEntry, now: number) =>
  enteredAt ?? roster.since(id) ?? now;

/** Starts a complete read. Abandons an unfinished complete read, and discards the new entries that it found. */
export function beginWalk(selection: Selection, id: WalkId): void {
  selection.roster.dropNewcomers();
  selection.roster.clearMarks();
  selection.log?.dropFound();
  const found = createAggregate(selection.breakdown);
  selection.walk = { id, found, times: [], hosts: new Map(), hasUntimed: false, missed: 0, rejected: 0 };
}

export function dropWalk(selection: Selection, id: WalkId): void {
  if (selection.walk?.id !== id) return;
  selection.roster.dropNewcomers();
  selection.log?.dropFound();
  selection.walk = undefined;
}

/**
 * Adds entries listed by a complete read, as newcomers until it ends, and returns how many are new. `now`: ms since the Unix epoch.
 * `wasMissed`: whether a read for new entries should have found the entry.
 */
export function addWalked(
  { roster, walk, log, hosts, isCounted }: Selection,
  id: WalkId,
  entries: readonly DlqEntry[],
  now: number,
  wasMissed: (entry: DlqEntry) => boolean,
): number {
  // A newer complete read has replaced this one and lists all entries itself.
  if (walk?.id !== id) return 0;
  let first = 0;
  for (const entry of entries) {
    const id = hash64(entry.id);
    const seen = roster.see(id, entry.enteredAt ?? now, false);
    if (seen !== 'again') addTo(walk.found, entry, firstSeen(roster, id, entry, now), now);
    if (seen !== 'first') continue;
    first += 1;
    if (isCounted) log?.found(id, entry);
    if (isCounted && hosts) countHost(walk.hosts, hostOfDestination(entry), 1);
    if (wasMissed(entry)) walk.missed += 1;
  }
  return first;
}

function countHost(hosts: Map<string, number>, host: string, by: 1 | -1): void {
  const key = hosts.size < MAX_VALUES || hosts.has(host) ? host : OTHER;
  hosts.set(key, (hosts.get(key) ?? 0) + by);
}

/** Adds the result of a read for new entries and returns how many are new. `now`: ms since the Unix epoch. */
export function addNew(selection: Selection, entries: readonly DlqEntry[], now: number): number {
  const { roster, walk, shown, ambiguity, log, hosts, isCounted } = selection;
  let first = 0;
  for (const entry of entries) {
    const id = hash64(entry.id);
    const seen = roster.see(id, entry.enteredAt ?? now, true);
    const since = firstSeen(roster, id, entry, now);
    if (walk && (seen === 'first' || seen === 'known')) addTo(walk.found, entry, since, now);
    if (seen !== 'first' && seen !== 'kept') continue;
    first += 1;
    if (isCounted) log?.entered(id, entry);
    if (isCounted && hosts) {
      const host = hostOfDestination(entry);
      hosts.add(host, now);
      if (seen === 'kept' && walk) countHost(walk.hosts, host, -1);
    }
    if (!shown) continue;
    addTo(shown, entry, since, now);
    // An entry older than the ambiguous read is assumed to be one of its unreadable rows.
    if (!ambiguity || ambiguity.rows === 0 || (entry.enteredAt ?? entry.createdAt ?? now) > ambiguity.at) continue;
    ambiguity.rows -= 1;
    addUnreadable(shown, -1);
  }
  countEntered(selection, first);
  return first;
}

function countEntered(selection: Selection, entered: number): void {
  if (!selection.isCounted || entered === 0) return;
  selection.entered += entered;
  selection.isTouched = true;
}

/**
 * Ends a complete read, unless a newer one has started. Removes unlisted entries and returns their number. If rows were unreadable,
 * spares one missing entry per unreadable row, plus up to `MAX_AMBIGUOUS` more. `retention`: of the queue (ms), if configured.
 */
export function endWalk(
  selection: Selection,
  id: WalkId,
  { serviceNow, retention }: { serviceNow: number; retention: number | undefined },
): number {
  const { roster, walk, left, log, isCounted } = selection;
  if (walk?.id !== id) return 0;
  countEntered(selection, roster.keepNewcomers(log && isCounted ? id => log.entered(id) : undefined));
  for (const [host, entries] of walk.hosts) if (entries > 0) selection.hosts?.add(host, serviceNow, entries);
  const { rejected } = walk;
  let removed = 0;
  const entries = roster.removeUnmarked(
    since => {
      removed += 1;
      if (!isCounted) return;
      const reason = retention === undefined ? 'unknown' : since + retention <= serviceNow ? 'expired' : 'removed';
      left[reason] += 1;
    },
    rejected > 0 ? rejected + MAX_AMBIGUOUS : 0,
  );
  if (rejected > 0) addUnreadable(walk.found, rejected);
  selection.ambiguity = rejected > 0 ? { at: serviceNow, rows: rejected, entries } : undefined;
  selection.shown = walk.found;
  selection.times = walk.times.sort((a, b) => a - b);
  selection.hasUntimed = walk.hasUntimed;
  selection.walks += 1;
  selection.walk = undefined;
  selection.isTouched ||= removed > 0 || !selection.isCounted;
  // Unreadable entries must not count as entered once they are readable.
  if (rejected === 0) selection.isCounted = true;
  return removed;
}

/** Entries of a selection in a time range (ms, both ends included, open if undefined). */
export interface Task {
  readonly selection: Selection;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** Which time of an entry the service compares with `fromDate` and `toDate`. */
export type DateField = 'entry' | 'creation';

export function timeOf({ enteredAt, createdAt }: DlqEntry, meaning: DateField): number | undefined {
  return meaning === 'entry' ? (enteredAt ?? createdAt) : (createdAt ?? enteredAt);
}

/** Whether an entry lacks the time that the service compares, so that it may be in no window. */
export const isUntimed = ({ enteredAt, createdAt }: DlqEntry, meaning: DateField) =>
  (meaning === 'entry' ? enteredAt : createdAt) === undefined;

/** A selection is read in windows if it has at least this number of pages. */
const MIN_PAGES = 100;
/** Minimum pages per window. Each window wastes half a page on average. */
const WINDOW_PAGES = 16;
/** Maximum number of windows: three per reader. More would cost requests without saving time. */
const MAX_WINDOWS = 48;
/** Every sixth walk reads without dates, to find entries that are in no window. It takes the fewest requests, but more time. */
const UNDATED_EVERY = 6;

/**
 * Plans a complete read. A large selection is split into windows that had equal numbers of entries in the last complete read. The
 * newest window comes first, because new entries make it the longest. A service may omit entries without a time from every window,
 * so a selection with such entries is read without dates.
 */
export function planWalk(selection: Selection): Task[] {
  const { times, walks, hasUntimed } = selection;
  if (times.length < MIN_PAGES || hasUntimed || walks % UNDATED_EVERY === 0) return [{ selection }];
  const windows = Math.min(MAX_WINDOWS, Math.floor(times.length / WINDOW_PAGES));
  const edges = new Set<number>();
  for (let window = 1; window < windows; window += 1) {
    edges.add(times[Math.floor((window * times.length) / windows)] as number);
  }
  const latestFirst = [...edges].reverse();
  return [...latestFirst, undefined].map((from, index) => {
    const next = latestFirst[index - 1];
    return { selection, from, to: next === undefined ? undefined : next - 1 };
  });
}
