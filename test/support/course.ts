/**
 * What an agent shows of an emulated service over hours or days: one process, one clock that is driven, so that days pass in
 * as long as their requests take.
 */
import { setImmediate } from 'node:timers/promises';
import { openAccounts } from '../../src/agent/parts.ts';
import { Config } from '../../src/config/schema.ts';
import { startEmulator } from '../../src/emulator/server.ts';
import type { Clock } from '../../src/kit/clock.ts';
import { withClosing } from '../../src/kit/closing.ts';

/** A clock on which the time that someone sleeps is over at once. */
export interface DrivenClock extends Clock {
  /** Moves on to this time of `monotonic`, unless that is over. */
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
    // What is read at the same time sleeps at the same time.
    async sleep(ms, signal) {
      const until = time + ms;
      await setImmediate();
      signal?.throwIfAborted();
      reach(until);
    },
  };
}

/** Series with all their labels but those of the target, and their values at each scrape; undefined: not shown. */
export type Course = ReadonlyMap<string, readonly (number | undefined)[]>;

export interface CourseOptions {
  readonly scenario: string;
  readonly seed?: number;
  readonly minutes: number;
  /** Configuration of the agent besides its account. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Names of the series that are kept. */
  readonly keep: (name: string) => boolean;
}

const MINUTE = 60_000;

/** Runs agent and emulator for so long, and scrapes the agent each minute. Times that are values count from the start. */
export function runCourse({ scenario, seed = 1, minutes, config = {}, keep }: CourseOptions): Promise<Course> {
  return withClosing(async closing => {
    const clock = createDrivenClock();
    const emulator = await startEmulator({ scenario, seed, clock });
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

/** Runs each round when it is due, one after another, and `scrape` each minute. */
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
