import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { startAgent } from '../agent/agent.ts';
import { Config } from '../config/schema.ts';
import { scenarios } from '../emulator/scenarios.ts';
import { startEmulator } from '../emulator/server.ts';
import { acceleratedClock, systemClock } from '../kit/clock.ts';
import { withClosing } from '../kit/closing.ts';
import { version } from '../kit/version.ts';
import { DEMO_EVENTS, DEMO_SEED, demoAccount, demoSettings, demoSpeed } from './demo-settings.ts';
import { scenarioOption } from './emulate.ts';
import { numberOption } from './option-values.ts';
import { saveMemory } from './save-memory.ts';
import { untilStopped } from './until-stopped.ts';

const SCENARIOS = Object.entries(scenarios)
  .map(([name, { description }]) => `  ${name}\n      ${description}`)
  .join('\n');

interface Options {
  readonly scenario: string;
  readonly speed?: number;
  readonly listen: string;
}

const timeNote = (speed: number) =>
  `Time runs ${speed} times as fast for service and agent. Prometheus keeps real time, so rates look too high and timestamps are in its future.`;

/** Runs the emulated service and an agent in one process, so that nothing else must be installed. */
export function demoCommand(): Command {
  return new Command('demo')
    .description('run the agent against the embedded emulator; no configuration needed')
    .addOption(scenarioOption('scenario that the emulator plays'))
    .option(
      '--speed <x>',
      'emulated seconds per real second, for service and agent but not for Prometheus; default: depends on the scenario',
      numberOption(1, 3600),
    )
    .option('--listen <address>', 'host:port that the agent listens on', '127.0.0.1:10922')
    .addHelpText('after', `\nScenarios:\n${SCENARIOS}`)
    .action(async ({ scenario, speed = demoSpeed(scenario), listen }: Options, command: Command) => {
      const stopped = untilStopped();
      const clock = acceleratedClock(systemClock, speed);
      await withClosing(async closing => {
        const emulator = await startEmulator({ scenario, seed: DEMO_SEED, maxEvents: DEMO_EVENTS, clock });
        closing.add('emulator', () => emulator.close());
        const folder = await mkdtemp(join(tmpdir(), 'delivery-watch-demo-'));
        closing.add('folder', () => rm(folder, { recursive: true, force: true }));
        const { data: config, error } = Config.safeParse({
          server: { listen },
          log: { level: 'warn', format: 'text' },
          store: { path: join(folder, 'demo.db') },
          accounts: [demoAccount('demo', scenario, emulator)],
          ...demoSettings(scenario, speed),
        });
        if (!config) return command.error(`error: --listen ${error.issues[0]?.message}`);
        const loaded = { file: 'demo', config, hash: 'demo', warnings: [] };
        // Ignore the environment: OpenTelemetry's variables would send spans elsewhere.
        const agent = await startAgent(loaded, { env: {}, clock, random: Math.random });
        closing.add('agent', () => agent.close());
        saveMemory();
        const lines = [
          `delivery-watch ${version}: the agent watches an emulated service`,
          `  status page  ${agent.url}/`,
          `  metrics      ${agent.url}/metrics`,
          `  emulator     ${emulator.url}/`,
          ...(speed === 1 ? [] : [timeNote(speed)]),
          'Stop with Ctrl-C.\n',
        ];
        process.stdout.write(lines.join('\n'));
        await stopped;
      });
    });
}
