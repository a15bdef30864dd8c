import type { DlqEntry } from '../../model/message.ts';
import { Implausible, type ObserveContext, PAGES_A_STEP } from '../collector.ts';
import { LAST } from './aggregate.ts';
import type { CallbackWalk } from './callbacks.ts';
import type { Memory } from './memory.ts';
import {
  type Bound,
  type Failure,
  MOST_OF_A_READ,
  MOST_OF_A_WALK,
  type Read,
  type Reading,
  startReading,
  toFailure,
} from './reading.ts';
import {
  beginWalk,
  clearFailure,
  dropWalk,
  endWalk,
  failFilter,
  keepNewcomers,
  releaseRows,
  type Selection,
  takeIn,
  takeInWalk,
} from './selection.ts';
import { type Meaning, planWalk, type Task, timeOf } from './windows.ts';

export interface RoundContext extends Pick<ObserveContext<Memory, unknown>, 'api' | 'memory' | 'now' | 'signal'> {
  readonly meaning: Meaning;
  readonly retention: number | undefined;
}

/** A read of some selections, complete or not, that goes on over several steps. */
export interface Walk {
  readonly reading: Reading;
  readonly selections: readonly Selection[];
  /** Whether all of each selection is read: an entry that is missing has left. */
  readonly isComplete: boolean;
  hasBegun: boolean;
  /** What a read for new entries has found, until it is complete: a failed one adds nothing. */
  held: Read[];
  isRead: boolean;
  changes: number;
  /** The entry that shows what `fromDate` means: both its times are known, and differ. The youngest will not go soon. */
  probe: DlqEntry | undefined;
  /** Rows of the queue, of a filter or of failed workflow runs could not be read. */
  isPartial: boolean;
  /** Another complete read of one of its selections began meanwhile, and has taken that over. */
  isOvertaken: boolean;
  /** What it has seen of failure callbacks; undefined where they are not looked at. */
  callbacks: CallbackWalk | undefined;
}

function start(
  tasks: readonly Task[],
  isComplete: boolean,
  most: Bound,
  { api, now, meaning, memory, signal }: RoundContext,
): Walk {
  const selections = [...new Set(tasks.map(({ selection }) => selection))];
  const reading = startReading(api, tasks, { now, meaning, most, reported: memory.reported }, signal);
  const progress = { hasBegun: false, held: [], isRead: false, changes: 0, isPartial: false, isOvertaken: false };
  return { reading, selections, isComplete, ...progress, probe: undefined, callbacks: undefined };
}

/** The whole of some selections, which are small where it is a read for new entries. */
export function startComplete(selections: readonly Selection[], context: RoundContext, most = MOST_OF_A_WALK): Walk {
  return start(selections.flatMap(planWalk), true, most, context);
}

export function startSince(selections: readonly Selection[], from: number, context: RoundContext): Walk {
  return start(
    selections.map(selection => ({ selection, from })),
    false,
    MOST_OF_A_READ,
    context,
  );
}

/** What one step reads: pages that it folds, or why the walk failed. */
export interface Step {
  readonly reads: readonly Read[];
  readonly failure?: Failure;
  /** Filters that failed alone so far. Nothing is read of them. */
  readonly failed: ReadonlyMap<Selection, Failure>;
  /** Nothing is left to be read or folded but what this step does. */
  readonly isLast: boolean;
}

/** Chunks of rosters that one step writes: as much as the store takes without holding up others. */
const CHUNKS_A_STEP = 8;

export async function readStep(walk: Walk, { all, filters }: Memory): Promise<Step> {
  const { reading, selections, isComplete, held } = walk;
  const step = (reads: readonly Read[], isLast = false): Step => {
    const failed = new Map(reading.failed);
    return { reads: reads.filter(({ selection }) => !failed.has(selection)), failed, isLast };
  };
  // Marks are cleared before anything is read: what a read for new entries finds from now on is there, whether this lists it or not.
  if (isComplete && !walk.hasBegun) return step([]);
  if (!walk.isRead) {
    const taken = await reading.take(PAGES_A_STEP);
    if ('error' in taken) return { ...step([]), failure: taken };
    if (isComplete && taken.length > 0) return step(taken);
    held.push(...taken);
    walk.isRead = taken.length === 0;
  }
  if (!walk.isRead) return step([]);
  if (held.length > 0) {
    const known = [all, ...filters].reduce((sum, { roster }) => sum + roster.size, 0);
    if (known > 2 * MOST_OF_A_WALK.entries) {
      throw new Implausible(`${known} entries are known: no more are added before a complete walk`);
    }
    return step(held.splice(0, PAGES_A_STEP));
  }
  const own = selections.filter(selection => selection.walk?.id === walk && !reading.failed.has(selection));
  const chunks = own.reduce((sum, { roster }) => sum + roster.newChunks, 0);
  return step([], chunks <= CHUNKS_A_STEP);
}

export function foldStep(
  memory: Memory,
  walk: Walk,
  { reads, failure, failed, isLast }: Step,
  { now, meaning, retention }: RoundContext,
  round: string,
): void {
  if (failure) {
    // Asking again would take what the account may ask from the walk that finds them.
    if (round === 'new' && failure.error instanceof Implausible) memory.tooMuchNew = failure.error;
    for (const selection of walk.selections) dropWalk(selection, walk);
    return;
  }
  const { lookedAt } = memory;
  const wasMissed = (entry: DlqEntry) =>
    lookedAt !== undefined && (entry.enteredAt ?? entry.createdAt ?? 0) < lookedAt - ENTRY_OVERLAP;
  if (walk.isComplete && !walk.hasBegun) for (const selection of walk.selections) beginWalk(selection, walk);
  if (round === 'full' && !walk.hasBegun) walk.callbacks = memory.callbacks.begin();
  walk.hasBegun = true;
  for (const [filter, { error }] of failed) failFilter(filter, walk, error, now);
  for (const { selection, rows, rejected } of reads) {
    if (selection === memory.all) walk.callbacks?.take(rows);
    walk.isPartial ||= rejected > 0;
    if (selection.walk?.id === walk) selection.walk.rejected += rejected;
    const isWatched = round === 'full' && selection === memory.all && selection.isCounted;
    walk.changes += walk.isComplete
      ? takeInWalk(selection, walk, rows, now, entry => isWatched && wasMissed(entry))
      : takeIn(selection, rows, now);
    const [time] = rows.flatMap(row => timeOf(row, meaning) ?? []);
    if (time !== undefined && selection.walk?.id === walk) selection.walk.times.push(time);
    for (const row of rows) if (isProbe(row) && enteredAfter(row, walk.probe)) walk.probe = row;
  }
  for (const selection of walk.selections) releaseRows(selection);
  if (!isLast) {
    if (walk.isComplete && walk.isRead) keepSome(walk);
    return;
  }
  if (round === 'new' && walk.selections.includes(memory.all)) memory.lookedAt = now;
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
    walk.changes += endWalk(selection, walk, now, retention);
  }
}

/** The newcomers of a large walk become known in several steps: each is committed with what it counts. */
function keepSome(walk: Walk): void {
  let room = CHUNKS_A_STEP;
  for (const selection of walk.selections) {
    const before = selection.roster.newChunks;
    if (room > 0) keepNewcomers(selection, walk, room);
    room -= before - selection.roster.newChunks;
  }
}

const enteredAfter = (entry: DlqEntry, other: DlqEntry | undefined) =>
  (entry.enteredAt ?? 0) > (other?.enteredAt ?? Number.NEGATIVE_INFINITY);

const isProbe = ({ messageId, enteredAt, createdAt }: DlqEntry) =>
  messageId !== undefined && enteredAt !== undefined && createdAt !== undefined && enteredAt > createdAt;

/**
 * Asks the service what `fromDate` means, by one read of an entry that shows both times: between the two, it is listed
 * only when its entry is meant. That it is not listed proves nothing, for it may have gone; nor does a failure.
 */
export async function detectFromDateField(
  probe: DlqEntry | undefined,
  { api, signal }: RoundContext,
): Promise<Meaning | undefined> {
  if (!probe) return undefined;
  const { messageId = '', createdAt = 0, enteredAt = 0, id } = probe;
  const pages = api.dlqPages({ messageId, fromDate: createdAt + 1, toDate: enteredAt }, signal);
  // What the walk has read is true all the same, also of a service that does not know the question.
  const page = await pages.next().catch(toFailure(signal));
  return !('error' in page) && !page.done && page.value.rows.some(row => row.id === id) ? 'entry' : undefined;
}

/** A queue that fits into one page is simply read whole each time: that finds removals, too. */
export const ONE_PAGE = 100;

/** How late an entry may be listed and still be found without a complete walk (ms). */
const ENTRY_OVERLAP = 60_000;
/** What the service's default retries take together (30.7 h), and a little: an entry's creation may be this much earlier than its entry into the queue. */
const LONGEST_RETRIES = 31 * 3_600_000;
/** Pages that a quiet round may cost where `fromDate` means creation. */
const FEW_PAGES = 5;

export function since({ all }: Memory, now: number, meaning: Meaning): number {
  if (meaning === 'entry') {
    const last = all.shown?.lastEntered ?? [];
    const newest = last.at(-1) ?? now;
    return Math.max(0, newest - ENTRY_OVERLAP, last.length < LAST ? 0 : (last[0] ?? 0));
  }
  const lookbackCap = all.times.at(-FEW_PAGES) ?? 0;
  return Math.max(0, now - LONGEST_RETRIES, lookbackCap);
}
