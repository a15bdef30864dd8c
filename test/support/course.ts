/**
 * Runs an agent and an emulated service for hours or days of simulated time in one process. The real duration depends
 * only on the number of requests.
 */
import { setImmediate } from 'node:timers/promises';
import { openAccounts } from '../../src/agent/parts.ts';
import { Config } from '../../src/config/schema.ts';
import { type Destination, startEmulator } from '../../src/emulator/server.ts';
import type { Clock } from '../../src/kit/clock.ts';
import { withClosing } from '../../src/kit/closing.ts';

/** A clock that advances immediately when a caller sleeps. */
export interface DrivenClock extends Clock {
  /** Advances `monotonic` to `time` unless it is already later. */
  reach(time: number): void;
}

export function createDrivenClock(start = Date.UTC(2026, 0, 1)): DrivenClock {
  let time = 0;
  const reach = (until: number) => {
    time = Math.max(time, until);
  };
  return {
    now: () => Math.floor(start + time),
    monotonic: () => time,
    reach,
    // Yield before advancing, so that concurrent sleepers count from the same time.
    async sleep(ms, signal) {
      const until = time + ms;
      await setImmediate();
      signal?.throwIfAborted();
      reach(until);
    },
  };
}

/** Values by series, one for each scrape; undefined if the series was missing. Series have all labels except `account`. */
export type Course = ReadonlyMap<string, readonly (number | undefined)[]>;

export interface CourseOptions {
  readonly scenario: string;
  readonly seed?: number;
  readonly minutes: number;
  /** Returns the destinations of the emulator. Default: the built-in ones. */
  destinations?(clock: Clock): readonly Destination[];
  /** Configuration of the agent without its account. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Selects series by name. */
  readonly keep: (name: string) => boolean;
}

const MINUTE = 60_000;

/**
 * Runs an agent and an emulator for `minutes` and scrapes the agent every minute. Values that are timestamps are relative to
 * the start.
 */
export function runCourse({
  scenario,
  seed = 1,
  minutes,
  destinations,
  config = {},
  keep,
}: CourseOptions): Promise<Course> {
  return withClosing(async closing => {
    const clock = createDrivenClock();
    const emulator = await startEmulator({
      scenario,
      seed,
      clock,
      ...(destinations && { destinations: destinations(clock) }),
    });
    closing.add('emulator', () => emulator.close());
    const account = { name: 'a', baseUrl: emulator.url, token: emulator.token };
    const parsed = Config.parse({ log: { level: 'error' }, store: { kind: 'memory' }, ...config, accounts: [account] });
    const loaded = { file: 'course', config: parsed, hash: 'course', warnings: [] };
    const accounts = await openAccounts(loaded, { env: {}, clock, random: () => 0.5 }, closing);
    const series = new Map<string, (number | undefined)[]>();
    const scrape = (minute: number) => {
      for (const { families, samples } of accounts.flatMap(({ sources }) => sources)) {
        const all = samples();
        for (const { name } of families) {
          for (const { labels, value, suffix = '' } of all.get(name) ?? []) {
            if (!keep(name + suffix)) continue;
            const key = seriesText(name + suffix, labels);
            const values = series.get(key) ?? [];
            series.set(key, values);
            values[minute] = name.endsWith('_timestamp_seconds') ? value - START_SECONDS : value;
          }
        }
      }
    };
    await drive(
      clock,
      accounts.flatMap(({ rounds }) => rounds),
      minutes,
      scrape,
    );
    return series;
  });
}
const START_SECONDS = createDrivenClock().now() / 1000;

const seriesText = (name: string, labels: Readonly<Record<string, string | undefined>>) => {
  const texts = Object.entries(labels).flatMap(([label, value]) =>
    value === undefined ? [] : `${label}=${JSON.stringify(value)}`,
  );
  return `${name}{${texts.join(',')}}`;
};

/** Runs the rounds sequentially, each when it is due, and calls `scrape` every minute. */
export async function drive(
  clock: DrivenClock,
  rounds: readonly { readonly every: number; run(signal: AbortSignal): Promise<void> }[],
  minutes: number,
  scrape: (minute: number) => void | Promise<void>,
): Promise<void> {
  const { signal } = new AbortController();
  const due = new Map(rounds.map(round => [round, 0]));
  for (let minute = 0; minute <= minutes; minute += 1) {
    for (;;) {
      const [next, at] = [...due].reduce((first, other) => (other[1] < first[1] ? other : first));
      if (at > minute * MINUTE) break;
      clock.reach(at);
      await next.run(signal);
      due.set(next, Math.max(at + next.every, clock.monotonic()));
    }
    clock.reach(minute * MINUTE);
    await scrape(minute);
  }
}
