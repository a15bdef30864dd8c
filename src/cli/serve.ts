import { Command } from 'commander';
import { startAgent } from '../app/agent.ts';
import { loadConfig } from '../config/load.ts';
import { systemClock } from '../kit/clock.ts';
import { untilStopped } from './until-stopped.ts';

export function serveCommand(): Command {
  return new Command('serve')
    .description('run the agent until SIGTERM or SIGINT')
    .requiredOption('--config <file>', 'configuration file')
    .action(async ({ config: file }: { config: string }) => {
      const stopped = untilStopped();
      const loaded = loadConfig(file, process.env);
      const agent = await startAgent(loaded, { env: process.env, clock: systemClock, random: Math.random });
      await stopped;
      await agent.close();
    });
}
