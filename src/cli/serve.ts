import { Command } from 'commander';
import { startAgent } from '../app/agent.ts';
import { loadConfig } from '../config/load.ts';
import { endWithin, systemClock } from '../kit/clock.ts';
import { durationOption } from './option-values.ts';
import { untilStopped } from './until-stopped.ts';

/** What is still under way when everything is closed ends the process no later than this, milliseconds. */
const LINGER = 1000;

export function serveCommand(): Command {
  return new Command('serve')
    .description('run the agent until SIGTERM or SIGINT; SIGHUP checks the configuration file')
    .requiredOption('--config <file>', 'configuration file')
    .option(
      '--backfill <duration>',
      'how much of the event log to read at the very first start, to know the messages in flight; counters still start at 0',
      durationOption,
    )
    .action(async ({ config: file, backfill }: { config: string; backfill?: number }) => {
      const stopped = untilStopped();
      // It ends a process that does not listen to it, also one that is still about to start.
      let recheck: (() => void) | undefined;
      process.on('SIGHUP', () => recheck?.());
      const loaded = loadConfig(file, process.env);
      const agent = await startAgent(loaded, {
        env: process.env,
        clock: systemClock,
        random: Math.random,
        ...(backfill === undefined ? {} : { backfill }),
      });
      recheck = agent.recheck;
      await stopped;
      await agent.close();
      // A receiver of spans that never answers would keep the process until its own timeout.
      endWithin(LINGER);
    });
}
