import type { DlqEntry } from '../../model/message.ts';
import {
  createFilterProof,
  createReportedFields,
  type DlqQuery,
  type Reader,
  type ReportedFields,
} from '../../upstream/api.ts';
import { bytesOf, ImplausibleResponse, MAX_READ_BYTES } from '../collector.ts';
import { isFilter, type Selection, type Task } from './selection.ts';

export interface Read {
  readonly selection: Selection;
  readonly rows: readonly DlqEntry[];
  /** On the last page, the number of unreadable rows of the task; else 0, because a replaced task is read again. */
  readonly rejected: number;
  readonly isPartial: boolean;
}

/** Reads tasks concurrently within the account's budget and returns their pages as they arrive. */
export type DlqReading = ReturnType<typeof startReading>;

export interface ReadFailure {
  readonly error: unknown;
}

/** Returns a handler for `catch` that converts service errors to values and rethrows others. */
export const asFailure =
  (signal: AbortSignal) =>
  (error: unknown): ReadFailure => {
    if (isServiceError(error, signal)) return { error };
    throw error;
  };

const isServiceError = (error: unknown, { aborted }: AbortSignal) =>
  error instanceof Error && 'reason' in error && !aborted;

/** Read limit per selection. The limit of all selections together is twice as high. */
export interface Bound {
  readonly entries: number;
  readonly pages: number;
  readonly bytes?: number;
}

/**
 * Limit of a walk: twice the largest supported queue, in pages of 100, half of which may be empty. A longer list is assumed to be
 * endless.
 */
export const WALK_LIMIT: Bound = { entries: 2_000_000, pages: 40_000 };
/** Limit of a read for new entries, which keeps its rows in memory until it ends. If more arrive, a complete walk finds them. */
export const NEW_READ_LIMIT: Bound = { entries: 100_000, pages: 2000, bytes: MAX_READ_BYTES };

/** A filter's list may have twice as many pages as the queue, plus this number. A longer list is assumed to be endless. */
const EXTRA_FILTER_PAGES = 500;

/** Maximum number of requests in flight or waiting for the account's budget. */
const READERS = 16;
/** Number of pages waiting for `take` at which readers pause. */
const MAX_WAITING = 16;

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its readers share one queue of pages.
export function startReading(
  api: Reader,
  planned: readonly Task[],
  { limit, reported }: { limit: Bound; reported: ReportedFields },
  signal: AbortSignal,
) {
  const tasks = [...planned];
  const pages: Read[] = [];
  let reading = 0;
  const together = { entries: 0, pages: 0, bytes: 0 };
  const read = new Map<Selection, typeof together>();
  let failure: ReadFailure | undefined;
  const failed = new Map<Selection, ReadFailure>();
  const selections = planned.map(({ selection }) => selection);
  /** Selections read in several windows. */
  const windowed = new Set(selections.filter((selection, index) => selections.indexOf(selection) !== index));
  /** Selections for which the service ignores windows. */
  const whole = new Set<Selection>();
  const proofs = new Map(
    selections.filter(isFilter).map(filter => [filter, createFilterProof(filter.match, reported)]),
  );
  let changed = Promise.withResolvers<void>();
  function change(): void {
    changed.resolve();
    changed = Promise.withResolvers();
  }

  function count(selection: Selection, rows: readonly DlqEntry[]): void {
    const own = read.get(selection) ?? { entries: 0, pages: 0, bytes: 0 };
    read.set(selection, own);
    const bytes = limit.bytes === undefined ? 0 : bytesOf(rows);
    const sums = [
      [own, 1],
      [together, 2],
    ] as const;
    for (const [sum, times] of sums) {
      sum.entries += rows.length;
      sum.pages += 1;
      sum.bytes += bytes;
      for (const [unit, most] of Object.entries(limit)) {
        if (sum[unit as keyof Bound] <= most * times) continue;
        throw new ImplausibleResponse(`the queue has more than ${most * times} ${unit}: reading stops`);
      }
    }
  }

  /**
   * Checks a filter after each page. Rows may omit only fields that no row contains, so a later page may invalidate an earlier
   * row.
   */
  function checkFilter(filter: Selection): void {
    const error = proofs.get(filter)?.contradiction();
    if (error) failed.set(filter, { error });
  }

  function fail(selection: Selection, error: unknown): void {
    const own = isFilter(selection) && isServiceError(error, signal);
    if (own) failed.set(selection, { error });
    else failure ??= { error };
  }

  /** Number of unfinished tasks of the queue; undefined if only filters are read. */
  let unreadOfQueue = planned.filter(({ selection }) => !isFilter(selection)).length || undefined;
  const queuePages = () => [...read].find(([selection]) => !isFilter(selection))?.[1].pages ?? 0;

  /** Throws if the queue has been read completely and the filter has far more pages than the queue. */
  function compareWithQueue(filter: Selection): void {
    const limit = 2 * queuePages() + EXTRA_FILTER_PAGES;
    if (unreadOfQueue !== 0 || (read.get(filter)?.pages ?? 0) <= limit) return;
    throw new ImplausibleResponse(`the list of the filter has more than ${limit} pages, the queue has ${queuePages()}`);
  }

  const isOver = (task: Task) =>
    failure !== undefined || failed.has(task.selection) || (whole.has(task.selection) && isWindow(task));

  const isWindow = ({ selection, from, to }: Task) =>
    windowed.has(selection) && (from !== undefined || to !== undefined);

  /** Whether a page has entries outside its window, which shows that the service ignores windows. */
  function isIgnored(task: Task, bounds: DlqQuery, rows: readonly DlqEntry[]): boolean {
    if (!isWindow(task)) return false;
    const window = createFilterProof(bounds, createReportedFields([]));
    window.add(rows);
    return window.contradiction() !== undefined;
  }

  /** Replaces the windows of a selection with one task: the service would list the whole selection for each window. */
  function readWhole(selection: Selection): void {
    if (whole.has(selection)) return;
    whole.add(selection);
    const others = tasks.filter(task => task.selection !== selection);
    if (unreadOfQueue !== undefined && !isFilter(selection)) unreadOfQueue += others.length + 1 - tasks.length;
    tasks.splice(0, tasks.length, ...others, { selection });
  }

  async function readTask(task: Task): Promise<void> {
    const { selection, from, to } = task;
    const { match } = selection;
    const bounds = { ...(from !== undefined && { fromDate: from }), ...(to !== undefined && { toDate: to }) };
    const query = {
      ...match,
      ...(from !== undefined && { fromDate: Math.max(Number(match.fromDate ?? from), from) }),
      ...(to !== undefined && { toDate: Math.min(Number(match.toDate ?? to), to) }),
    };
    // Skip a window outside the filter's dates: a service may reject the empty range.
    if (Number(query.fromDate) > Number(query.toDate)) return;
    const iterator = api.dlqPages(query, signal);
    let rejected = 0;
    for (let pagesRead = 1; !isOver(task); pagesRead += 1) {
      const page = await iterator.next();
      if (page.done) return;
      const { rows, isLast, incomplete } = page.value;
      rejected += page.value.rejected;
      const counted = isLast ? rejected : 0;
      count(selection, rows);
      if (isFilter(selection)) compareWithQueue(selection);
      (proofs.get(selection) ?? reported).add(rows, page.value.rejected);
      checkFilter(selection);
      // Rows of a task that is replaced below are valid, and will be listed again.
      pages.push({ selection, rows, rejected: counted, isPartial: counted > 0 || incomplete > 0 });
      change();
      if (pagesRead === 1 && isIgnored(task, bounds, rows)) return readWhole(selection);
      while (pages.length >= MAX_WAITING && !isOver(task)) await changed.promise;
    }
  }

  function start(): void {
    while (reading < READERS && tasks.length > 0 && !failure) {
      reading += 1;
      const task = tasks.shift() as Task;
      readTask(task)
        .catch((error: unknown) => fail(task.selection, error))
        .finally(() => {
          reading -= 1;
          if (unreadOfQueue !== undefined && !isFilter(task.selection)) unreadOfQueue -= 1;
          start();
          change();
        });
    }
  }

  return {
    /** Waits for pages and returns up to `max`; none once everything is read. If a read failed, returns its failure. */
    async take(max: number): Promise<readonly Read[] | ReadFailure> {
      start();
      while (pages.length === 0 && reading > 0 && !failure) await changed.promise;
      if (failure) return failure;
      for (const filter of proofs.keys()) if (!failed.has(filter)) checkFilter(filter);
      const taken = pages.splice(0, max);
      change();
      return taken;
    },
    /** Filters that could not be read or are contradicted by their rows. They do not fail the walk. */
    failed,
    isProven: (filter: Selection): boolean => proofs.get(filter)?.isProven() ?? true,
  };
}
