import type { Scenario } from './scenario.ts';

const HOUR_MS = 3_600_000;

export const flowControlPileup: Scenario = {
  description: 'for half of every hour deliveries take twice as long, and messages pile up behind flow-control keys',
  doomed: usual => usual,
  attended: true,
  takesMs: (usual, elapsedMs) => (elapsedMs % HOUR_MS < HOUR_MS / 2 ? 2 * usual : usual),
};
