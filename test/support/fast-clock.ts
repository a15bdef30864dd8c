import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';

/**
 * Loaded into a process before its program (`--import`): accelerates clocks and timers. FAST_CLOCK contains a start time (ms
 * since the Unix epoch) and a factor: `1790000000000 10`. Processes with the same value agree on the time, no matter when each
 * was started.
 */
const [since = 0, speed = 1] = (process.env.FAST_CLOCK ?? '').split(' ').map(Number);
const { now } = Date;
const monotonic = performance.now.bind(performance);
const { setTimeout: later } = globalThis;

Date.now = () => Math.floor(since + (now() - since) * speed);
performance.now = () => monotonic() * speed;
globalThis.setTimeout = Object.assign(
  (callback: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => later(callback, ms / speed, ...args),
  later,
) as typeof setTimeout;

const { setTimeout: sleep } = timers;
timers.setTimeout = (ms = 0, value, options) => sleep(ms / speed, value, options);
syncBuiltinESMExports();
