/** Runs an agent with the configuration at argv[2] and, of what clients may take, the bounds in argv[3], as JSON. */
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
