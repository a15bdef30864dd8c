import type { DlqEntry } from '../../model/message.ts';
import { ImplausibleResponse, type ObserveContext, PAGES_A_STEP } from '../collector.ts';
import { MAX_LAST } from './aggregate.ts';
import type { CallbackWalk } from './callback-tracker.ts';
import type { DlqMemory } from './memory.ts';
import {
  asFailure,
  type Bound,
  type DlqReading,
  NEW_READ_LIMIT,
  type Read,
  type ReadFailure,
  startReading,
  WALK_LIMIT,
} from './reading.ts';
import {
  addNew,
  addWalked,
  beginWalk,
  clearFailure,
  type DateField,
  dropWalk,
  endWalk,
  failFilter,
  isUntimed,
  planWalk,
  type Selection,
  type Task,
  timeOf,
} from './selection.ts';

export interface RoundContext extends Pick<ObserveContext<DlqMemory, unknown>, 'api' | 'memory' | 'now' | 'signal'> {
  /** Start of the round by the service's clock. Entry times, ages and expiry times refer to this clock. */
  readonly serviceNow: number;
  readonly meaning: DateField;
  readonly retention: number | undefined;
}

/** A read of selections in several steps: either complete, or only for new entries. */
export interface Walk {
  readonly reading: DlqReading;
  readonly selections: readonly Selection[];
  /** Whether selections are read completely, so that missing entries count as removed. */
  readonly isComplete: boolean;
  hasBegun: boolean;
  /** Pages of a read for new entries, held until the read is complete: a failed read must not add entries. */
  pending: Read[];
  isRead: boolean;
  changes: number;
  /** Newest entry with an entry time later than its creation time. Used to detect which of the two `fromDate` refers to. */
  probe: DlqEntry | undefined;
  /** Whether any row was unreadable or incomplete. */
  isPartial: boolean;
  /** Whether a newer complete read of one of the selections has replaced this one. */
  isOvertaken: boolean;
  /** Sightings of failure callbacks; undefined except in the round `full`. */
  callbacks: CallbackWalk | undefined;
}

function start(tasks: readonly Task[], isComplete: boolean, limit: Bound, { api, memory, signal }: RoundContext): Walk {
  const selections = [...new Set(tasks.map(({ selection }) => selection))];
  const reading = startReading(api, tasks, { limit, reported: memory.reported }, signal);
  const progress = { hasBegun: false, pending: [], isRead: false, changes: 0, isPartial: false, isOvertaken: false };
  return { reading, selections, isComplete, ...progress, probe: undefined, callbacks: undefined };
}

/** Starts a complete read. `limit`: `NEW_READ_LIMIT` if the read replaces a read for new entries in a small queue. */
export function startComplete(selections: readonly Selection[], context: RoundContext, limit = WALK_LIMIT): Walk {
  return start(selections.flatMap(planWalk), true, limit, context);
}

export function startSince(selections: readonly Selection[], from: number, context: RoundContext): Walk {
  const tasks = selections.map(selection => ({ selection, from }));
  return start(tasks, false, NEW_READ_LIMIT, context);
}

/** Result of one read step: pages to fold, or the error of the walk. */
export interface WalkStep {
  readonly reads: readonly Read[];
  readonly failure?: ReadFailure;
  /** Filters that failed without failing the walk. Their pages are dropped. */
  readonly failed: ReadonlyMap<Selection, ReadFailure>;
  readonly isLast: boolean;
}

export async function readStep(walk: Walk, { all, filters }: DlqMemory): Promise<WalkStep> {
  const { reading, isComplete, pending } = walk;
  const step = (reads: readonly Read[], isLast = false): WalkStep => {
    const failed = new Map(reading.failed);
    return { reads: reads.filter(({ selection }) => !failed.has(selection)), failed, isLast };
  };
  // The first step only clears marks. Entries that a concurrent read marks afterwards stay, even if this walk misses them.
  if (isComplete && !walk.hasBegun) return step([]);
  if (!walk.isRead) {
    const taken = await reading.take(PAGES_A_STEP);
    if ('error' in taken) return { ...step([]), failure: taken };
    if (isComplete && taken.length > 0) return step(taken);
    pending.push(...taken);
    walk.isRead = taken.length === 0;
  }
  if (!walk.isRead) return step([]);
  if (pending.length > 0) {
    const known = [all, ...filters].reduce((sum, { roster }) => sum + roster.size, 0);
    if (known > 2 * WALK_LIMIT.entries) {
      throw new ImplausibleResponse(`${known} entries are tracked: no more are added before a complete walk`);
    }
    return step(pending.splice(0, PAGES_A_STEP));
  }
  return step([], true);
}

export function foldStep(
  memory: DlqMemory,
  walk: Walk,
  { reads, failure, failed, isLast }: WalkStep,
  context: RoundContext,
  round: string,
): void {
  const { now, serviceNow, meaning } = context;
  if (failure) {
    // A retry would spend the budget that the next complete walk needs to find the entries that this round missed.
    if (round === 'new' && failure.error instanceof ImplausibleResponse) memory.tooMuchNew = failure.error;
    for (const selection of walk.selections) dropWalk(selection, walk);
    return;
  }
  const { lastNewReadAt } = memory;
  const wasMissed = (entry: DlqEntry) =>
    lastNewReadAt !== undefined && (entry.enteredAt ?? entry.createdAt ?? 0) < lastNewReadAt - ENTRY_OVERLAP;
  if (walk.isComplete && !walk.hasBegun) for (const selection of walk.selections) beginWalk(selection, walk);
  if (round === 'full' && !walk.hasBegun) walk.callbacks = memory.callbacks.begin();
  walk.hasBegun = true;
  for (const [filter, { error }] of failed) failFilter(filter, walk, error, now);
  for (const { selection, rows, rejected, isPartial } of reads) {
    if (selection === memory.all) walk.callbacks?.add(rows);
    walk.isPartial ||= isPartial;
    if (selection.walk?.id === walk) {
      selection.walk.rejected += rejected;
      selection.walk.hasUntimed ||= rows.some(row => isUntimed(row, meaning));
    }
    const isWatched = round === 'full' && selection === memory.all && selection.isCounted;
    walk.changes += walk.isComplete
      ? addWalked(selection, walk, rows, serviceNow, entry => isWatched && wasMissed(entry))
      : addNew(selection, rows, serviceNow);
    const [time] = rows.flatMap(row => timeOf(row, meaning) ?? []);
    if (time !== undefined && selection.walk?.id === walk) selection.walk.times.push(time);
    for (const row of rows) if (isProbe(row) && enteredAfter(row, walk.probe)) walk.probe = row;
  }
  if (!isLast) return;
  if (round === 'new' && walk.selections.includes(memory.all)) memory.lastNewReadAt = serviceNow;
  const whole = walk.selections.filter(selection => !failed.has(selection));
  for (const selection of whole) {
    if (walk.isComplete) clearFailure(selection);
    selection.isProven = walk.reading.isProven(selection) && (walk.isComplete || selection.isProven);
  }
  if (!walk.isComplete) return;
  if (round === 'full') memory.tooMuchNew = undefined;
  for (const selection of whole) {
    walk.isOvertaken ||= selection.walk?.id !== walk;
    const { missed = 0 } = selection.walk?.id === walk ? selection.walk : {};
    memory.foundByRescan += missed;
    memory.isTouched ||= missed > 0;
    walk.changes += endWalk(selection, walk, context);
  }
}

const enteredAfter = (entry: DlqEntry, other: DlqEntry | undefined) =>
  (entry.enteredAt ?? 0) > (other?.enteredAt ?? Number.NEGATIVE_INFINITY);

const isProbe = ({ messageId, enteredAt, createdAt }: DlqEntry) =>
  messageId !== undefined && enteredAt !== undefined && createdAt !== undefined && enteredAt > createdAt;

/**
 * Probes the meaning of `fromDate` with a window between the creation and the entry of one message: the service lists the
 * message only if it compares entry times. A missing message or a failed request proves nothing.
 */
export async function detectFromDateField(
  probe: DlqEntry | undefined,
  { api, signal }: RoundContext,
): Promise<DateField | undefined> {
  if (!probe) return undefined;
  const { messageId = '', createdAt = 0, enteredAt = 0, id } = probe;
  const pages = api.dlqPages({ messageId, fromDate: createdAt + 1, toDate: enteredAt }, signal);
  // The probe is optional: a service error must not fail the walk.
  const page = await pages.next().catch(asFailure(signal));
  return !('error' in page) && !page.done && page.value.rows.some(row => row.id === id) ? 'entry' : undefined;
}

/** Page size (entries). A smaller queue is read completely each time, which also finds removals. */
export const ONE_PAGE = 100;

/** Maximum time between an entry's arrival and its listing (ms). Reads for new entries miss entries that are listed later. */
const ENTRY_OVERLAP = 60_000;
/** Maximum time from creation to entry (ms): the service's default retries take 30.7 h. */
const MAX_RETRY_TIME = 31 * 3_600_000;
/** Maximum number of pages read by a round that finds nothing new, if `fromDate` filters by creation time. */
const MAX_QUIET_PAGES = 5;

/** Returns the start of a read for new entries (ms). Ignores times in the future, which would hide new entries until then. */
export function since({ memory: { all }, serviceNow, meaning }: RoundContext): number {
  const isPast = (time: number) => time <= serviceNow;
  if (meaning === 'entry') {
    const last = all.shown?.lastEntered.filter(isPast) ?? [];
    const newest = last.at(-1) ?? serviceNow;
    return Math.max(0, newest - ENTRY_OVERLAP, last.length < MAX_LAST ? 0 : (last[0] ?? 0));
  }
  const lookbackCap = all.times.filter(isPast).at(-MAX_QUIET_PAGES) ?? 0;
  return Math.max(0, serviceNow - MAX_RETRY_TIME, lookbackCap);
}
