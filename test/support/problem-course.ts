/** What the page would say is wrong, minute by minute, while the demo plays a scenario: hours in as long as their requests take. */
import type { Generation } from '../../src/app/generation.ts';
import { buildGeneration } from '../../src/app/generation.ts';
import { openBase } from '../../src/app/parts.ts';
import { judgedAccount } from '../../src/app/view/account.ts';
import { createProblemLog } from '../../src/app/view/problem-log.ts';
import { seriesName } from '../../src/app/view/recent.ts';
import { DEMO_SEED, demoSettings } from '../../src/cli/demo.ts';
import { Config } from '../../src/config/schema.ts';
import { startEmulator } from '../../src/emulator/server.ts';
import type { Problem } from '../../src/http/api/parts.ts';
import { withClosing } from '../../src/kit/closing.ts';
import type { Source } from '../../src/metrics/family.ts';
import type { AccountHistory, Point } from '../../src/model/history.ts';
import { createDrivenClock, drive } from './course.ts';

/** What is wrong at one minute. */
export interface Said {
  readonly minute: number;
  readonly problems: readonly Problem[];
}

/** A history that is told once a minute, and has all of it. */
function createRecorder(now: () => number) {
  const series = new Map<string, Point[]>();
  const recent: AccountHistory['recent'] = (name, over) => {
    const points = series.get(name) ?? [];
    const first = points.findIndex(({ at }) => at >= now() - over);
    return first < 0 ? [] : points.slice(Math.max(0, first - 1));
  };
  return {
    recent,
    record(sources: readonly Source[]) {
      const values = new Map<string, number>();
      for (const [family, samples] of sources.flatMap(source => [...source.samples()])) {
        for (const { labels, value, suffix = '' } of samples) {
          const { destination: _one, ...others } = labels as Readonly<Record<string, string | undefined>>;
          const known = Object.fromEntries(
            Object.entries(others).filter((pair): pair is [string, string] => pair[1] !== undefined),
          );
          const name = seriesName(family + suffix, known);
          values.set(name, (values.get(name) ?? 0) + value);
        }
      }
      for (const [name, value] of values) {
        const points = series.get(name) ?? [];
        points.push({ at: now(), value });
        series.set(name, points);
      }
    },
  };
}

const sourcesOf = ({ accounts, autoCancel }: Generation) => [
  ...accounts.all.flatMap(account => account.sourcesWith(accounts.infoFamily)),
  ...(autoCancel?.sources ?? []),
];

export interface ProblemCourseOptions {
  readonly scenario: string;
  readonly minutes: number;
  /** Configuration beside that of the demo: rounds that come seldom cost little. */
  readonly collect?: object;
  /** Minutes between two looks. */
  readonly every?: number;
}

/** Runs agent and emulator as `demo` does for so long, and looks each minute. */
export function problemCourse({ scenario, minutes, collect, every = 1 }: ProblemCourseOptions): Promise<Said[]> {
  return withClosing(async closing => {
    const clock = createDrivenClock(Date.UTC(2026, 2, 14, 10));
    const emulator = await startEmulator({ scenario, seed: DEMO_SEED, clock });
    closing.add('emulator', () => emulator.close());
    const budget = { requestsPerSecond: 50, burst: 50, concurrency: 8, requestsPerDay: 10_000_000 };
    const { config: settings } = demoSettings(scenario);
    const config = Config.parse({
      log: { level: 'error' },
      store: { kind: 'memory' },
      accounts: [{ name: 'demo', baseUrl: emulator.url, token: emulator.token, budget }],
      ...settings,
      ...(collect ? { collect } : {}),
    });
    const loaded = { file: 'demo', config, hash: 'demo', warnings: [] };
    const base = await openBase(loaded, { env: {}, clock, random: () => 0.5 }, closing);
    const { generation } = await buildGeneration(loaded, base, () => ['demo']);
    closing.add('generation', () => Promise.all(generation.accounts.all.map(account => account.close())));
    const [account] = generation.accounts.all;
    const [own] = config.accounts;
    if (!account || !own) throw new Error('there is no account');
    const history = createRecorder(clock.now);
    const log = createProblemLog();
    const said: Said[] = [];
    const { signal } = new AbortController();
    await drive(clock, account.rounds, minutes, async minute => {
      if (minute % every !== 0) return;
      for (const loop of generation.autoCancel?.loops ?? []) await loop(signal);
      const sources = sourcesOf(generation);
      const { firstSeen } = log;
      const viewed = { account, settings: own, sources, recent: history.recent, firstSeen };
      const { problems } = judgedAccount(viewed, clock.now());
      log.saw(problems, clock.now());
      history.record(sources);
      said.push({ minute, problems });
    });
    return said;
  });
}

/** When each kind was first said and how often, with its first sentence: one line a kind. */
export function summary(said: readonly Said[]): string[] {
  const kinds = new Map<string, { first: number; times: number; problem: Problem }>();
  for (const { minute, problems } of said) {
    for (const problem of problems) {
      const key = `${problem.severity} ${problem.kind}`;
      const one = kinds.get(key) ?? { first: minute, times: 0, problem };
      kinds.set(key, { ...one, times: one.times + 1 });
    }
  }
  return [...kinds].map(
    ([key, { first, times, problem }]) => `${first} min (${times}): ${key} [${problem.since}] ${problem.text}`,
  );
}
