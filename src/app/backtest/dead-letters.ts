import { dlq } from '../../collectors/dlq/dlq.ts';
import type { DlqEntry } from '../../model/message.ts';
import type { Reader } from '../../upstream/api.ts';

type Filter = ReturnType<typeof dlq.options.parse>['filters'][number];

/** Entries that are listed now, by when they came. Times: milliseconds since the Unix epoch. */
interface Listed {
  /** When each came, ascending; those that do not tell are left out. */
  readonly entered: Float64Array;
  /** The earliest creation among those that had come with the one at the same index. */
  readonly oldest: Float64Array;
}

/**
 * What the dead-letter queue proves of its past: whatever is still listed was there from its entry on. Of what has left it says
 * nothing, so all of it is `at least`.
 */
export interface DeadLetters {
  readonly all: Listed;
  /** By name. */
  readonly filters: ReadonlyMap<string, Listed>;
  /** Entries that do not tell when they came, and rows that could not be read. */
  readonly untold: number;
  /** Entries of the queue that `keep` wants, MOST_KEPT at most. */
  readonly kept: readonly DlqEntry[];
  /** How many more it wants. */
  readonly leftOut: number;
}

/** Whole queues are read; entries that are kept whole for auto-cancel, at most. */
export const MOST_KEPT = 100_000;

async function list(
  reader: Pick<Reader, 'dlqPages'>,
  match: Filter['match'],
  signal: AbortSignal,
  take: (entry: DlqEntry) => void,
) {
  const seen = new Set<string>();
  const found: { at: number; createdAt: number }[] = [];
  let untold = 0;
  const pages = reader.dlqPages(match, signal);
  for (let page = await pages.next(); !page.done; page = await pages.next()) {
    untold += page.value.rejected;
    for (const entry of page.value.rows) {
      if (seen.has(entry.id)) continue;
      seen.add(entry.id);
      take(entry);
      if (entry.enteredAt === undefined) untold += 1;
      else found.push({ at: entry.enteredAt, createdAt: entry.createdAt ?? Number.POSITIVE_INFINITY });
    }
  }
  found.sort((a, b) => a.at - b.at);
  let oldest = Number.POSITIVE_INFINITY;
  const listed: Listed = {
    entered: Float64Array.from(found, ({ at }) => at),
    oldest: Float64Array.from(found, ({ createdAt }) => {
      oldest = Math.min(oldest, createdAt);
      return oldest;
    }),
  };
  return { listed, untold };
}

/** Reads the whole queue, and each filter. Throws UpstreamError. */
export async function readDeadLetters(
  reader: Pick<Reader, 'dlqPages'>,
  filters: readonly Filter[],
  keep: (entry: DlqEntry) => boolean,
  signal: AbortSignal,
): Promise<DeadLetters> {
  const kept: DlqEntry[] = [];
  let leftOut = 0;
  const { listed: all, untold } = await list(reader, {}, signal, entry => {
    if (!keep(entry)) return;
    if (kept.length < MOST_KEPT) kept.push(entry);
    else leftOut += 1;
  });
  const byName = new Map<string, Listed>();
  for (const { name, match } of filters) {
    byName.set(name, (await list(reader, match, signal, () => undefined)).listed);
  }
  return { all, filters: byName, untold, kept, leftOut };
}

export const NO_DEAD_LETTERS: DeadLetters = {
  all: { entered: new Float64Array(), oldest: new Float64Array() },
  filters: new Map(),
  untold: 0,
  kept: [],
  leftOut: 0,
};

/** How many had come by then. */
function countUntil({ entered }: Listed, at: number): number {
  let [low, high] = [0, entered.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((entered[middle] ?? Number.POSITIVE_INFINITY) <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

const { messages, oldest, oldestEntered, filterMessages, filterOldest, filterOldestEntered } = dlq.families;

/** What one listing proves for a metric at a time; undefined: nothing. */
function provenOf(listed: Listed, metric: string, at: number): number | undefined {
  const count = countUntil(listed, at);
  if (metric === messages.name || metric === filterMessages.name) return count;
  if (count === 0) return undefined;
  const isEntered = metric === oldestEntered.name || metric === filterOldestEntered.name;
  const time = isEntered ? listed.entered[0] : listed.oldest[count - 1];
  return time === undefined || !Number.isFinite(time) ? undefined : time / 1000;
}

const OF_ALL: ReadonlySet<string> = new Set([messages, oldest, oldestEntered].map(({ name }) => name));
const OF_FILTERS: ReadonlySet<string> = new Set(
  [filterMessages, filterOldest, filterOldestEntered].map(({ name }) => name),
);

/** Series of a metric that are proven at a time; undefined where it is none of these. */
export function provenSeries({ all, filters }: DeadLetters, metric: string, at: number) {
  const series = (listed: Listed, labels: Readonly<Record<string, string>>) => {
    const value = provenOf(listed, metric, at);
    return value === undefined ? [] : [{ key: JSON.stringify(Object.entries(labels)), labels, value }];
  };
  if (OF_ALL.has(metric)) return series(all, {});
  if (OF_FILTERS.has(metric)) return [...filters].flatMap(([filter, listed]) => series(listed, { filter }));
  return undefined;
}
