import { hash64 } from '../../kit/hash.ts';
import type { Change } from '../../model/change.ts';
import { createReportedFields, type DlqQuery, type ReportedFields } from '../../upstream/api.ts';
import type { ImplausibleResponse } from '../collector.ts';
import type { Routes } from '../routes.ts';
import type { Breakdown, Dimension } from './aggregate.ts';
import { type CallbackTracker, createTracker, isTrackerRow, type TrackerOptions } from './callback-tracker.ts';
import { createEnteredHosts, createEnteredLog, isHostRow } from './entered.ts';
import { createKindHistory, isKindRow, type KindHistory } from './kinds.ts';
import { Roster } from './roster.ts';
import type { DateField, Selection } from './selection.ts';

export interface DlqMemory {
  readonly all: Selection;
  readonly filters: readonly Selection[];
  /** Filter fields found in any row since the process started. Only grows, so reads may add to it directly. */
  readonly reported: ReportedFields;
  /** Date field that the service compares with `fromDate`, if proven. */
  meaning: DateField | undefined;
  readonly callbacks: CallbackTracker;
  readonly kinds: KindHistory;
  foundByRescan: number;
  /** Start of the last completed read for new entries (ms since the Unix epoch). */
  lastNewReadAt: number | undefined;
  /** Error of a read that exceeded its limit of new entries. Suspends reads for new entries until the next complete walk. */
  tooMuchNew: ImplausibleResponse | undefined;
  isTouched: boolean;
  orphans: readonly string[];
}

interface MemoryOptions {
  readonly filters: readonly { readonly name: string; readonly match: DlqQuery }[];
  readonly breakdowns: readonly Dimension[];
  readonly maxSeriesPerBreakdown: number;
}

interface MemoryServices {
  readonly callbacks: TrackerOptions;
  readonly routes: Routes;
  readonly isLogged: boolean;
}

type StoredSelection = Pick<Selection, 'entered' | 'left' | 'isCounted'> & Partial<Pick<Selection, 'isContradicted'>>;

const QUEUE = 'queue';

/** Returns the store key of a filter. A changed `match` results in another key, so the filter's counters restart at 0. */
export function selectionKey(name: string, match: DlqQuery): string {
  const sorted = Object.entries(match).sort(([a], [b]) => (a < b ? -1 : 1));
  return `selection/${hash64(JSON.stringify([name, sorted])).toString(16)}`;
}

function restoreSelection(
  rows: ReadonlyMap<string, string>,
  name: string,
  match: DlqQuery,
  breakdown: Breakdown,
  { log, hosts }: Partial<Pick<Selection, 'log' | 'hosts'>> = {},
): Selection {
  const key = selectionKey(name, match);
  const chunks = [...rows].flatMap(([row, value]): [number, string][] =>
    row.startsWith(`${key}/chunk/`) ? [[Number(row.slice(key.length + '/chunk/'.length)), value]] : [],
  );
  const stored = JSON.parse(rows.get(key) ?? '{}') as Partial<StoredSelection>;
  return {
    name,
    match,
    key,
    breakdown,
    roster: new Roster(new Map(chunks)),
    entered: stored.entered ?? 0,
    left: { expired: 0, removed: 0, unknown: 0, ...stored.left },
    isCounted: stored.isCounted ?? false,
    shown: undefined,
    walk: undefined,
    ambiguity: undefined,
    times: [],
    hasUntimed: false,
    walks: 0,
    log,
    hosts,
    failure: undefined,
    isContradicted: stored.isContradicted ?? false,
    isProven: false,
    isTouched: false,
  };
}

export function restoreDlqMemory(
  rows: ReadonlyMap<string, string>,
  { filters, breakdowns, maxSeriesPerBreakdown }: MemoryOptions,
  { callbacks, routes, isLogged }: MemoryServices,
): DlqMemory {
  const log = isLogged ? createEnteredLog() : undefined;
  const hosts = createEnteredHosts(maxSeriesPerBreakdown, rows);
  const all = restoreSelection(rows, 'all', {}, { dimensions: breakdowns, routes, isDetailed: true }, { log, hosts });
  const sizeOnly = { dimensions: [], routes, isDetailed: false };
  const others = filters.map(({ name, match }) => restoreSelection(rows, name, match, sizeOnly));
  const keys = [all, ...others].map(({ key }) => key);
  const isOurs = (row: string) =>
    [isTrackerRow, isKindRow, isHostRow].some(isOf => isOf(row)) ||
    row === QUEUE ||
    keys.some(key => row === key || row.startsWith(`${key}/`));
  const stored = JSON.parse(rows.get(QUEUE) ?? '{}') as { meaning?: DateField; foundByRescan?: number };
  return {
    all,
    filters: others,
    reported: createReportedFields(filters.map(({ match }) => match)),
    meaning: stored.meaning,
    callbacks: createTracker(callbacks, rows),
    kinds: createKindHistory(routes.patterns, rows),
    foundByRescan: stored.foundByRescan ?? 0,
    lastNewReadAt: undefined,
    tooMuchNew: undefined,
    isTouched: false,
    orphans: [...rows.keys()].filter(row => !isOurs(row)),
  };
}

export function drainDlqChanges(memory: DlqMemory): Change[] {
  const changes: Change[] = memory.orphans.map(key => ({ key, value: null }));
  changes.push(...memory.callbacks.drainChanges(), ...memory.kinds.drainChanges());
  changes.push(...(memory.all.hosts?.drainChanges() ?? []));
  memory.orphans = [];
  for (const selection of [memory.all, ...memory.filters]) {
    const { key, roster, entered, left, isCounted, isContradicted } = selection;
    for (const number of roster.drainTouched()) {
      changes.push({ key: `${key}/chunk/${number}`, value: roster.chunk(number) ?? null });
    }
    if (selection.isTouched) {
      const contradicted = isContradicted ? { isContradicted } : {};
      const stored: StoredSelection = { entered, left, isCounted, ...contradicted };
      changes.push({ key, value: JSON.stringify(stored) });
    }
    selection.isTouched = false;
  }
  if (memory.isTouched) {
    const { meaning, foundByRescan } = memory;
    changes.push({ key: QUEUE, value: JSON.stringify({ meaning, foundByRescan }) });
  }
  memory.isTouched = false;
  return changes;
}
