/** Records the problems on the page, minute by minute, while the demo plays a scenario in simulated time. */
import { openBase } from '../../src/agent/base.ts';
import { createServing } from '../../src/agent/served.ts';
import { Supervisor } from '../../src/agent/supervisor.ts';
import { DEMO_EVENTS, DEMO_SEED, demoAccount, demoSettings, demoSpeed } from '../../src/cli/demo-settings.ts';
import { Config } from '../../src/config/schema.ts';
import { startEmulator } from '../../src/emulator/server.ts';
import { withClosing } from '../../src/kit/closing.ts';
import type { Problem } from '../../src/status/api/parts.ts';
import { createDrivenClock, drive } from './course.ts';

/** Problems on the page in one minute. */
export interface ReportedProblems {
  readonly minute: number;
  readonly problems: readonly Problem[];
}

/** Default polling intervals. The demo polls every few seconds, which takes five times as much work. */
export const SELDOM = { flowControl: { every: '15s' }, dlq: { every: '30s' }, events: { every: '30s' } };

/**
 * Runs an agent and an emulator like `demo`, without its sending loops. `collect`: overrides rounds; `seed`: selects
 * another workload.
 */
export function problemCourse(
  scenario: string,
  minutes: number,
  collect?: object,
  seed = DEMO_SEED,
): Promise<readonly ReportedProblems[]> {
  return withClosing(async closing => {
    const clock = createDrivenClock(Date.UTC(2026, 2, 14, 10));
    const emulator = await startEmulator({ scenario, seed, clock, maxEvents: DEMO_EVENTS });
    closing.add('emulator', () => emulator.close());
    const config = Config.parse({
      log: { level: 'error' },
      store: { kind: 'memory' },
      accounts: [demoAccount('demo', scenario, emulator)],
      ...demoSettings(scenario, demoSpeed(scenario)),
      ...(collect ? { collect } : {}),
    });
    const loaded = { file: 'demo', config, hash: 'demo', warnings: [] };
    const base = await openBase(loaded, { env: {}, clock, random: () => 0.5 }, closing);
    const supervisor = await Supervisor.open(loaded, base);
    closing.add('accounts', () => supervisor.close());
    const { served } = await createServing(supervisor, base);
    const { running } = supervisor.state();
    const { signal } = new AbortController();
    // Make auto-cancel read its brake, because no loop does so here.
    await served.command({ kind: 'resume', by: 'test', reason: 'start' }, signal);
    const reported: ReportedProblems[] = [];
    await drive(
      clock,
      running.flatMap(({ account }) => account.rounds),
      minutes,
      async minute => {
        for (const { autoCancel } of running) await autoCancel?.run(signal);
        reported.push({ minute, problems: served.views().account('demo')?.problems ?? [] });
        for (const account of running) await account.sample();
      },
    );
    return reported;
  });
}

/** Returns the first occurrence of each severity and kind. */
export function firstOccurrences(
  reported: readonly ReportedProblems[],
): Map<string, { readonly minute: number; readonly text: string }> {
  const first = new Map<string, { minute: number; text: string }>();
  for (const { minute, problems } of reported) {
    for (const { severity, kind, text } of problems) {
      const key = `${severity} ${kind}`;
      if (!first.has(key)) first.set(key, { minute, text });
    }
  }
  return first;
}
