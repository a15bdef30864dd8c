import type { DlqEntry } from '../../model/message.ts';
import {
  createFilterProof,
  createReportedFields,
  type DlqQuery,
  type Reader,
  type ReportedFields,
} from '../../upstream/api.ts';
import { Implausible } from '../collector.ts';
import { isFilter, type Selection } from './selection.ts';
import { type Meaning, splitTask, type Task } from './windows.ts';

export interface Read {
  readonly selection: Selection;
  readonly rows: readonly DlqEntry[];
  /** Unreadable rows of that part, reported with its last page: a part that is cut is read once more. */
  readonly rejected: number;
}

/** Parts of the queue that are read at the same time, as far as the account's budget lets them, and handed over page by page. */
export type Reading = ReturnType<typeof startReading>;

export interface Failure {
  readonly error: unknown;
}

/** For `catch`: what the service did not answer, as a value, where the round can do without it. Throws anything else. */
export const toFailure =
  (signal: AbortSignal) =>
  (error: unknown): Failure => {
    if (isOfService(error, signal)) return { error };
    throw error;
  };

const isOfService = (error: unknown, { aborted }: AbortSignal) =>
  error instanceof Error && 'reason' in error && !aborted;

/** What is read at most, of each selection and of all together twice that. */
export interface Bound {
  readonly entries: number;
  readonly pages: number;
}

/**
 * Of a walk: twice as many entries as the largest queue that this is made for, which take some 30 bytes each, in pages of
 * a hundred of which half may be empty. What is longer is a list that never ends.
 */
export const MOST_OF_A_WALK: Bound = { entries: 2_000_000, pages: 40_000 };
/** Of a read for new entries, which are kept until the last is read. More than that is left to the next complete walk. */
export const MOST_OF_A_READ: Bound = { entries: 100_000, pages: 2000 };

/** Pages of a filter beyond twice those of the queue that contains it: a longer list never ends, and would delay the queue. */
const MORE_THAN_QUEUE = 500;

/** Requests that wait or are under way at the same time; the account's budget says how many are. */
const READERS = 16;
/** Pages that wait to be taken; beyond that, readers wait: a reading from which no pages are taken stops. */
const MOST_WAITING = 16;

export function startReading(
  api: Reader,
  planned: readonly Task[],
  { now, meaning, most, reported }: { now: number; meaning: Meaning; most: Bound; reported: ReportedFields },
  signal: AbortSignal,
) {
  const tasks = [...planned];
  const pages: Read[] = [];
  let reading = 0;
  const together = { entries: 0, pages: 0 };
  const read = new Map<Selection, { entries: number; pages: number }>();
  let failure: Failure | undefined;
  const failed = new Map<Selection, Failure>();
  const selections = planned.map(({ selection }) => selection);
  /** Selections that are read in several windows. */
  const split = new Set(selections.filter((selection, index) => selections.indexOf(selection) !== index));
  /** Selections whose windows the service ignores. */
  const whole = new Set<Selection>();
  const proofs = new Map(
    selections.filter(isFilter).map(filter => [filter, createFilterProof(filter.match, reported)]),
  );
  let wake = () => {};
  let changed = new Promise<void>(resolve => {
    wake = resolve;
  });
  function change(): void {
    wake();
    changed = new Promise(resolve => {
      wake = resolve;
    });
  }

  function count(selection: Selection, entries: number): void {
    const own = read.get(selection) ?? { entries: 0, pages: 0 };
    read.set(selection, own);
    const sums = [
      [own, 1],
      [together, 2],
    ] as const;
    for (const [sum, times] of sums) {
      sum.entries += entries;
      sum.pages += 1;
      const unit = (['entries', 'pages'] as const).find(each => sum[each] > most[each] * times);
      if (unit) throw new Implausible(`the queue has more than ${most[unit] * times} ${unit}: reading stops`);
    }
  }

  /** A row without a field contradicts its filter as soon as any row carries it, so each page is a reason to check again. */
  function checkFilter(filter: Selection): void {
    const error = proofs.get(filter)?.contradiction();
    if (error) failed.set(filter, { error });
  }

  function fail(selection: Selection, error: unknown): void {
    const own = isFilter(selection) && isOfService(error, signal);
    if (own) failed.set(selection, { error });
    else failure ??= { error };
  }

  /** Tasks of the queue that are not read to the end; undefined if the reading is of filters alone. */
  let unreadOfQueue = planned.filter(({ selection }) => !isFilter(selection)).length || undefined;
  const queuePages = () => [...read].find(([selection]) => !isFilter(selection))?.[1].pages ?? 0;

  /** Throws if the queue is read to the end, and a filter has far more pages. */
  function compareWithQueue(filter: Selection): void {
    const most = 2 * queuePages() + MORE_THAN_QUEUE;
    if (unreadOfQueue !== 0 || (read.get(filter)?.pages ?? 0) <= most) return;
    throw new Implausible(`the list of the filter has more than ${most} pages, the queue has ${queuePages()}`);
  }

  const isOver = (task: Task) =>
    failure !== undefined || failed.has(task.selection) || (whole.has(task.selection) && isWindow(task));

  const isWindow = ({ selection, from, to }: Task) => split.has(selection) && (from !== undefined || to !== undefined);

  /** Whether a page of a window has entries of another. Its first page is enough: each window has one. */
  function isIgnored(task: Task, bounds: DlqQuery, rows: readonly DlqEntry[]): boolean {
    if (!isWindow(task)) return false;
    const window = createFilterProof(bounds, createReportedFields([]));
    window.add(rows);
    return window.contradiction() !== undefined;
  }

  /** Ends the windows of a selection and reads it without: the service lists all of it in each. */
  function readWhole(selection: Selection): void {
    if (whole.has(selection)) return;
    whole.add(selection);
    const others = tasks.filter(task => task.selection !== selection);
    if (unreadOfQueue !== undefined && !isFilter(selection)) unreadOfQueue += others.length + 1 - tasks.length;
    tasks.splice(0, tasks.length, ...others, { selection });
  }

  async function readTask(task: Task): Promise<void> {
    const { selection, from, to } = task;
    const bounds = { ...(from === undefined ? {} : { fromDate: from }), ...(to === undefined ? {} : { toDate: to }) };
    const query = { ...selection.match, ...narrow(selection.match, bounds) };
    // Outside the dates of the filter: a service may refuse such a range.
    if (Number(query.fromDate) > Number(query.toDate)) return;
    const iterator = api.dlqPages(query, signal);
    let rejected = 0;
    for (let pagesRead = 1; !isOver(task); pagesRead += 1) {
      const page = await iterator.next();
      if (page.done) return;
      const { rows, isLast } = page.value;
      rejected += page.value.rejected;
      const parts = isLast ? undefined : splitTask(task, pagesRead, rows, now, meaning);
      count(selection, rows.length);
      if (isFilter(selection)) compareWithQueue(selection);
      (proofs.get(selection) ?? reported).add(rows, page.value.rejected);
      checkFilter(selection);
      // What was read of it is true all the same, and will be found again.
      pages.push({ selection, rows, rejected: isLast ? rejected : 0 });
      change();
      if (pagesRead === 1 && isIgnored(task, bounds, rows)) return readWhole(selection);
      if (parts) {
        tasks.push(...parts);
        if (unreadOfQueue !== undefined && !isFilter(selection)) unreadOfQueue += parts.length;
        split.add(selection);
        return;
      }
      while (pages.length >= MOST_WAITING && !isOver(task)) await changed;
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
    /** Waits for pages; gives up to `most`, and none when everything is read. */
    async take(most: number): Promise<readonly Read[] | Failure> {
      start();
      while (pages.length === 0 && reading > 0 && !failure) await changed;
      if (failure) return failure;
      for (const filter of proofs.keys()) if (!failed.has(filter)) checkFilter(filter);
      const taken = pages.splice(0, most);
      change();
      return taken;
    },
    /** Filters whose read failed so far, or that their rows contradict: these fail alone. */
    failed,
    isProven: (filter: Selection): boolean => proofs.get(filter)?.isProven() ?? true,
  };
}

function narrow(
  { fromDate, toDate }: { fromDate?: string | number; toDate?: string | number },
  bounds: { fromDate?: number; toDate?: number },
): { fromDate?: number; toDate?: number } {
  return {
    ...bounds,
    ...(bounds.fromDate !== undefined && fromDate !== undefined
      ? { fromDate: Math.max(Number(fromDate), bounds.fromDate) }
      : {}),
    ...(bounds.toDate !== undefined && toDate !== undefined ? { toDate: Math.min(Number(toDate), bounds.toDate) } : {}),
  };
}
