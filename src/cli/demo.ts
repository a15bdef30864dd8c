import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { startAgent } from '../app/agent.ts';
import { version } from '../app/version.ts';
import { Config } from '../config/schema.ts';
import { acceleratedClock, systemClock } from '../kit/clock.ts';
import { withClosing } from '../kit/closing.ts';
import { DEMO_EVENTS, DEMO_SEED, demoSettings, demoSpeed } from './demo-settings.ts';
import { startEmulatorFor } from './emulate.ts';
import { numberOption } from './option-values.ts';
import { untilStopped } from './until-stopped.ts';

/** What the agent reads of the event log's past, milliseconds: from the start it knows which messages are on their way, and since when. */
const BACKFILL = 3_600_000;

/** Said of a scenario when it starts. */
const HINTS: ReadonlyMap<string, string> = new Map([
  [
    'stuck-callback',
    'After a minute the first failure callbacks have been stuck for half a day: see /api/v1/journal?since=30d.',
  ],
]);

interface Options {
  readonly scenario: string;
  readonly speed?: number;
  readonly listen: string;
}

/** The main job with nothing else installed: the emulated service and an agent that watches it, in one process. */
export function demoCommand(): Command {
  return new Command('demo')
    .description('run the agent against the embedded emulator; no configuration needed')
    .option('--scenario <name>', 'scenario that the emulator plays', 'steady')
    .option('--speed <x>', 'seconds that pass in a real one; default: what the scenario needs', numberOption(1, 3600))
    .option('--listen <address>', 'host:port that the agent listens on', '127.0.0.1:10922')
    .action(async ({ scenario, speed = demoSpeed(scenario), listen }: Options, command: Command) => {
      const stopped = untilStopped();
      const settings = demoSettings(scenario, speed);
      const clock = speed === 1 ? systemClock : acceleratedClock(systemClock, speed);
      await withClosing(async closing => {
        const emulator = await startEmulatorFor(command, {
          scenario,
          seed: DEMO_SEED,
          mostEvents: DEMO_EVENTS,
          clock,
          ...(process.env.ME ? { mostEvents: Number(process.env.ME) } : {}),
        });
        closing.add('emulator', () => emulator.close());
        const folder = await mkdtemp(join(tmpdir(), 'delivery-watch-demo-'));
        closing.add('folder', () => rm(folder, { recursive: true, force: true }));
        const { data: config, error } = Config.safeParse({
          server: { listen },
          log: { level: 'warn', format: 'text' },
          store: { path: join(folder, 'demo.db') },
          accounts: [{ name: 'demo', baseUrl: emulator.url, token: emulator.token, ...settings.account }],
          ...settings.config,
        });
        if (!config) return command.error(`error: --listen ${error.issues[0]?.message}`);
        const agent = await startAgent(
          { file: 'demo', config, hash: 'demo', warnings: [] },
          { env: {}, clock, random: Math.random, backfill: BACKFILL },
        );
        closing.add('agent', () => agent.close());
        process.stdout.write(
          [
            `delivery-watch ${version}: the agent watches an emulated service`,
            `  status page  ${agent.url}/`,
            `  metrics      ${agent.url}/metrics`,
            `  emulator     ${emulator.url}/`,
            ...(speed === 1 ? [] : [`Time runs ${speed} times as fast.`]),
            ...(HINTS.has(scenario) ? [HINTS.get(scenario)] : []),
            'Stop with Ctrl-C.\n',
          ].join('\n'),
        );
        await stopped;
      });
    });
}
