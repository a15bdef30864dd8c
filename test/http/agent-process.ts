/** Runs an agent with the configuration file at argv[2] and the client limits in argv[3] (JSON). */
import { startAgent } from '../../src/agent/agent.ts';
import { loadConfig } from '../../src/config/load.ts';
import { systemClock } from '../../src/kit/clock.ts';

const [file = '', bounds = '{}'] = process.argv.slice(2);
await startAgent(loadConfig(file, process.env), {
  env: process.env,
  clock: systemClock,
  random: Math.random,
  bounds: JSON.parse(bounds),
});
