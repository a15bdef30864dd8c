import { Command } from 'commander';
import { startAgent } from '../agent/agent.ts';
import { loadConfig } from '../config/load.ts';
import { endWithin, systemClock } from '../kit/clock.ts';
import { configOption } from './config-option.ts';
import { saveMemory } from './save-memory.ts';
import { untilStopped } from './until-stopped.ts';

/** Interval between checks of the configuration's files (ms). */
const WATCH_EVERY = 5000;

/** Maximum time from a signal to the end of the process (ms). Every part of a stop has a shorter limit. */
const STOP_WITHIN = 9000;

/** Time to wait for pending work after closing (ms). */
const LINGER = 1000;

export function serveCommand(): Command {
  return new Command('serve')
    .description('run the agent until SIGTERM or SIGINT; SIGHUP or a changed file reloads the configuration')
    .addOption(configOption())
    .action(async ({ config: file }: { config: string }) => {
      let isStopping = false;
      const stopped = untilStopped().then(() => {
        isStopping = true;
        endWithin(STOP_WITHIN);
      });
      // By default, SIGHUP would end the process.
      let reload: (() => unknown) | undefined;
      let isRequested = false;
      process.on('SIGHUP', () => {
        if (reload) reload();
        else isRequested = true;
      });
      try {
        const loaded = loadConfig(file, process.env);
        const agent = await startAgent(loaded, {
          env: process.env,
          clock: systemClock,
          random: Math.random,
          watchEvery: WATCH_EVERY,
        });
        saveMemory();
        reload = agent.reload;
        if (isRequested) void reload();
        const isLost = await Promise.race([stopped.then(() => false), agent.lost.then(() => true)]);
        // Another process leads: do not send or write. The supervisor restarts this process as a standby.
        if (isLost) process.exit(1);
        await agent.close();
      } catch (error) {
        // After a signal, an unresponsive database does not count as a failure.
        if (!isStopping) throw error;
        process.stderr.write(`${error}\n`);
      } finally {
        // An unresponsive trace receiver, or a log that is not read, would otherwise keep the process alive.
        endWithin(LINGER);
      }
    });
}
