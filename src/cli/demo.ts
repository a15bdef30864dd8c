import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { startAgent } from '../app/agent.ts';
import { version } from '../app/version.ts';
import { Config } from '../config/schema.ts';
import { acceleratedClock, systemClock } from '../kit/clock.ts';
import { withClosing } from '../kit/closing.ts';
import { startEmulatorFor } from './emulate.ts';
import { untilStopped } from './until-stopped.ts';

/** How the demo runs a scenario. */
interface DemoSettings {
  /** Seconds of the demo that pass in a real one, for emulator and agent alike. */
  readonly speed: number;
  /** Configuration of the agent besides its account. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Said when it starts. */
  readonly hint?: string;
}

const usual: DemoSettings = {
  speed: 1,
  config: {
    collect: {
      flowControl: { every: '2s' },
      dlq: {
        every: '5s',
        filters: [
          { name: 'emails', match: { queueName: 'emails' } },
          { name: 'status-500', match: { responseStatus: 500 } },
        ],
      },
      events: { every: '5s', overlap: '5s' },
    },
    schedules: [
      { name: 'reports', match: { scheduleId: 'scd_7minutely' }, cron: '* * * * *', grace: '59s', endsWithin: '5m' },
    ],
  },
};

/** Cancels what the scenario stuck-callback leaves behind, within these limits of its own. */
export const hungWorkflows = (limits: { readonly perRun: number; readonly perHour: number }) => ({
  name: 'app-workflows-hung',
  mode: 'enforce',
  expires: '9999-12-31',
  match: { workflowUrl: { prefix: ['https://app.example.com/'] } },
  stuckWhen: { inProgressFor: '8h', assumeMaxRetries: 4, snapshots: 8 },
  limits,
  cooldown: { perUrl: '0s' },
});

/** A callback is stuck after hours, so hours pass in seconds. Nothing is sent: the rules only plan. */
const stuckCallback: DemoSettings = {
  speed: 900,
  config: {
    collect: {
      flowControl: { every: '10m' },
      dlq: { every: '5m', rescanEvery: '10m' },
      events: { every: '10m', window: '1h' },
    },
    staleness: { withdrawAtMost: '4h' },
    autoCancel: {
      mode: 'plan',
      // All callbacks that were stuck before the demo began count as stuck at the same moment.
      breaker: { candidates: { max: 1000, percent: 100 } },
      limits: { perRun: 100, perHour: 1000, perDay: 1000 },
      rules: [hungWorkflows({ perRun: 100, perHour: 1000 })],
    },
  },
  hint: 'Time runs 900 times as fast: after some 40 seconds the first failure callbacks have been stuck for 8 hours; then see /api/v1/journal?since=30d.',
};

/** What a scenario needs to be seen. */
export function demoSettings(scenario: string): DemoSettings {
  return scenario === 'stuck-callback' ? stuckCallback : usual;
}

/** A workload that has something waiting from the first minute on. */
export const DEMO_SEED = 3;

/** The main job with nothing else installed: the emulated service and an agent that watches it, in one process. */
export function demoCommand(): Command {
  return new Command('demo')
    .description('run the agent against the embedded emulator; no configuration needed')
    .option('--scenario <name>', 'scenario that the emulator plays', 'steady')
    .option('--listen <address>', 'host:port that the agent listens on', '127.0.0.1:10922')
    .action(async ({ scenario, listen }: { scenario: string; listen: string }, command: Command) => {
      const stopped = untilStopped();
      const settings = demoSettings(scenario);
      const clock = settings.speed === 1 ? systemClock : acceleratedClock(systemClock, settings.speed);
      await withClosing(async closing => {
        const emulator = await startEmulatorFor(command, { scenario, seed: DEMO_SEED, clock });
        closing.add('emulator', () => emulator.close());
        const folder = await mkdtemp(join(tmpdir(), 'delivery-watch-demo-'));
        closing.add('folder', () => rm(folder, { recursive: true, force: true }));
        const { data: config, error } = Config.safeParse({
          server: { listen },
          log: { level: 'warn', format: 'text' },
          store: { path: join(folder, 'demo.db') },
          accounts: [
            {
              name: 'demo',
              baseUrl: emulator.url,
              token: emulator.token,
              budget: { requestsPerSecond: 50, burst: 50, concurrency: 8, requestsPerDay: 10_000_000 },
            },
          ],
          ...settings.config,
        });
        if (!config) return command.error(`error: --listen ${error.issues[0]?.message}`);
        const agent = await startAgent(
          { file: 'demo', config, hash: 'demo', warnings: [] },
          { env: {}, clock, random: Math.random },
        );
        closing.add('agent', () => agent.close());
        process.stdout.write(
          [
            `delivery-watch ${version}: the agent watches an emulated service`,
            `  status page  ${agent.url}/`,
            `  metrics      ${agent.url}/metrics`,
            `  emulator     ${emulator.url}/`,
            ...(settings.hint === undefined ? [] : [settings.hint]),
            'Stop with Ctrl-C.\n',
          ].join('\n'),
        );
        await stopped;
      });
    });
}
