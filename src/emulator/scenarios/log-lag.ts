import type { Scenario } from './scenario.ts';

const LAG_MS = 20_000;
const CYCLE_MS = 15 * 60_000;
/** The log stands still from here to the end of each cycle. */
const STALLS_AFTER_MS = 10 * 60_000;

export const logLag: Scenario = {
  description: 'events are listed 20 s late, and for 5 of every 15 minutes new ones are held back',
  doomed: usual => usual,
  attended: true,
  listedUntil: now => now - Math.max(0, (now % CYCLE_MS) - STALLS_AFTER_MS) - LAG_MS,
};
