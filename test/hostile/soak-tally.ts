import { readFileSync } from 'node:fs';
import type { Scrape } from './scrape.ts';

const MIB = 1024 * 1024;

/** Measurements of one minute. Memory in bytes. */
interface Minute {
  readonly rss: number[];
  readonly ms: number[];
  /** Lowest heap usage, which approximates the heap after a garbage collection. */
  heapFloor: number;
}

export interface Tally {
  scraped(scrape: Scrape, rss: number): void;
  /** Counts a violation and stores when it was first detected. */
  violated(kind: string, what: string): void;
  /** Returns a line about the last complete minute, or undefined if no minute ended since the previous call. */
  minute(): string | undefined;
  readonly violations: number;
  table(): string;
}

/** Returns the resident memory of a process (bytes). */
export function rssOf(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? Number.NaN) * 1024;
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const inMib = (bytes: number) => `${Math.round(bytes / MIB)} MiB`;

/** Returns the `share` quantile (0 to 1) of the values, by the nearest-rank method. */
export function rank(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

/** Maximum permitted result of `growth`. */
const TOLERATED_GROWTH = 0.15;

/**
 * Excludes the first third of `values`, in which bounded caches fill up. Returns the relative growth of the mean between the
 * two halves of the rest, or undefined if too few values remain.
 */
export function growth(values: readonly number[]): number | undefined {
  const settled = values.slice(Math.ceil(values.length / 3));
  if (settled.length < 4) return undefined;
  const half = Math.floor(settled.length / 2);
  return mean(settled.slice(-half)) / mean(settled.slice(0, half)) - 1;
}

export function createTally(): Tally {
  const start = performance.now();
  const minutes: Minute[] = [];
  const violations = new Map<string, { count: number; first: string; at: number }>();
  let reported = 0;
  let last: Scrape | undefined;

  const all = (pick: (minute: Minute) => readonly number[]) => minutes.flatMap(pick);

  function requests(): string[][] {
    const sums = new Map<string, { healthy: number; hostile: number }>();
    for (const { labels, value } of last?.families.find(({ name }) => name.startsWith('delivery_watch_api_requests'))
      ?.samples ?? []) {
      const sum = sums.get(labels.outcome ?? '') ?? { healthy: 0, hostile: 0 };
      sum[labels.account?.startsWith('healthy-') ? 'healthy' : 'hostile'] += value;
      sums.set(labels.outcome ?? '', sum);
    }
    return [...sums].map(([outcome, { healthy, hostile }]) => [
      `requests ${outcome}`,
      `hostile ${hostile}, healthy ${healthy}`,
    ]);
  }

  /** Returns the growth of the resident memory, excluding the last minute, which may be incomplete. */
  const risen = () => growth(minutes.slice(0, -1).map(({ rss }) => mean(rss)));

  function flatness(): string {
    const rise = risen();
    if (rise === undefined) return 'run too short to evaluate';
    return `${rise <= TOLERATED_GROWTH ? 'flat' : 'GROWING'}: later half ${rise < 0 ? '' : '+'}${(rise * 100).toFixed(1)} % of the earlier`;
  }

  return {
    scraped(scrape, rss) {
      const index = Math.floor((performance.now() - start) / 60_000);
      while (minutes.length <= index) minutes.push({ rss: [], ms: [], heapFloor: Number.POSITIVE_INFINITY });
      const minute = minutes[index] as Minute;
      minute.rss.push(rss);
      minute.ms.push(scrape.ms);
      minute.heapFloor = Math.min(minute.heapFloor, scrape.value('nodejs_heap_size_used_bytes') ?? minute.heapFloor);
      last = scrape;
    },
    violated(kind, what) {
      const known = violations.get(kind);
      if (known) known.count += 1;
      else violations.set(kind, { count: 1, first: what, at: (performance.now() - start) / 1000 });
    },
    minute() {
      const done = Math.floor((performance.now() - start) / 60_000);
      if (done <= reported) return undefined;
      reported = done;
      const { rss, ms, heapFloor } = minutes[done - 1] ?? { rss: [], ms: [], heapFloor: Number.NaN };
      return `minute ${done}: ${ms.length} scrapes, p99 ${rank(ms, 0.99).toFixed(0)} ms, slowest ${Math.max(...ms).toFixed(0)} ms; RSS mean ${inMib(mean(rss))}, ${inMib(Math.min(...rss))} to ${inMib(Math.max(...rss))}; least heap ${inMib(heapFloor)}; violations ${[...violations.values()].reduce((sum, { count }) => sum + count, 0)}`;
    },
    get violations() {
      return violations.size + Number((risen() ?? 0) > TOLERATED_GROWTH);
    },
    table() {
      const rss = all(minute => minute.rss);
      const ms = all(minute => minute.ms);
      const rows = [
        ['scrapes, each parsed strictly', String(ms.length)],
        [
          'scrape ms',
          `median ${rank(ms, 0.5).toFixed(0)}, p99 ${rank(ms, 0.99).toFixed(0)}, slowest ${rank(ms, 1).toFixed(0)}`,
        ],
        ['series in the last', String(last?.families.reduce((sum, { samples }) => sum + samples.length, 0))],
        ['RSS at start, least, most', [rss[0] ?? Number.NaN, rank(rss, 0), rank(rss, 1)].map(inMib).join(', ')],
        ['RSS mean of each minute', minutes.map(({ rss }) => inMib(mean(rss))).join(', ')],
        ['least heap of each minute', minutes.map(({ heapFloor }) => inMib(heapFloor)).join(', ')],
        ['memory', flatness()],
        ...requests(),
        ...[...violations].map(([kind, { count, first, at }]) => [
          `VIOLATED ${kind}`,
          `${count} times, first after ${at.toFixed(0)} s: ${first}`,
        ]),
        ['verdict', this.violations === 0 ? 'no violations' : 'VIOLATED'],
      ];
      const width = Math.max(...rows.map(([name = '']) => name.length));
      return rows.map(([name = '', value = '']) => `${name.padEnd(width)}  ${value}\n`).join('');
    },
  };
}
