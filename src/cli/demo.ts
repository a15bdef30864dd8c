import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { startAgent } from '../app/agent.ts';
import { version } from '../app/version.ts';
import { Config } from '../config/schema.ts';
import { acceleratedClock, systemClock } from '../kit/clock.ts';
import { createClosing } from '../kit/closing.ts';
import { demoSettings } from './demo-settings.ts';
import { startEmulatorFor } from './emulator.ts';
import { untilStopped } from './until-stopped.ts';

/** A workload that has something waiting from the first minute on. */
const DEMO_SEED = 3;

/** The main job with nothing else installed: the emulated service and an agent that watches it, in one process. */
export function demoCommand(): Command {
  return new Command('demo')
    .description('run the agent against the embedded emulator; no configuration needed')
    .option('--scenario <name>', 'what happens in the emulator', 'steady')
    .option('--listen <address>', "the agent's host:port", '127.0.0.1:10922')
    .action(async ({ scenario, listen }: { scenario: string; listen: string }, command: Command) => {
      const stopped = untilStopped();
      const settings = demoSettings(scenario);
      const clock = settings.speed === 1 ? systemClock : acceleratedClock(systemClock, settings.speed);
      const closing = createClosing();
      try {
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
            `delivery-watch ${version}: an agent watches an emulated service`,
            `  status page  ${agent.url}/`,
            `  metrics      ${agent.url}/metrics`,
            `  emulator     ${emulator.url}/`,
            ...(settings.hint === undefined ? [] : [settings.hint]),
            'Stop with Ctrl-C.\n',
          ].join('\n'),
        );
        await stopped;
      } finally {
        await closing.close();
      }
    });
}
