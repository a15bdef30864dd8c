import { Command } from 'commander';
import { startAgent } from '../agent/agent.ts';
import { loadConfig } from '../config/load.ts';
import { endWithin, systemClock } from '../kit/clock.ts';
import { durationOption } from './option-values.ts';
import { environmentFaults } from './otlp-environment.ts';
import { untilStopped } from './until-stopped.ts';

/** Milliseconds between two looks at the files of the configuration; two that agree are needed. */
const WATCH_EVERY = 5000;

/** What is still under way when everything is closed ends the process no later than this, milliseconds. */
const LINGER = 1000;

export function serveCommand(): Command {
  const command = new Command('serve');
  return command
    .description('run the agent until SIGTERM or SIGINT; SIGHUP, or a change of its files, reloads the configuration')
    .requiredOption('--config <file>', 'configuration file')
    .option(
      '--backfill <duration>',
      'how much of the event log to read at the very first start, to know the messages in flight; counters still start at 0',
      durationOption,
    )
    .action(async ({ config: file, backfill }: { config: string; backfill?: number }) => {
      const stopped = untilStopped();
      // It ends a process that does not listen to it, also one that is still about to start.
      let reload: (() => unknown) | undefined;
      let isAsked = false;
      process.on('SIGHUP', () => {
        if (reload) reload();
        else isAsked = true;
      });
      const loaded = loadConfig(file, process.env);
      const faults = environmentFaults(loaded.config, process.env);
      if (faults.length > 0) command.error(faults.join('\n'));
      const agent = await startAgent(loaded, {
        env: process.env,
        clock: systemClock,
        random: Math.random,
        watchEvery: WATCH_EVERY,
        ...(backfill === undefined ? {} : { backfill }),
      });
      reload = agent.reload;
      if (isAsked) void reload();
      await stopped;
      await agent.close();
      // A receiver of spans that never answers would keep the process until its own timeout.
      endWithin(LINGER);
    });
}
