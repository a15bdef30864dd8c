import type { Scenario } from './scenario.ts';

const CYCLE_MS = 10 * 60_000;
/** The service is down from here to the end of each cycle. */
const DOWN_AFTER_MS = 7 * 60_000;

export const outage: Scenario = {
  description: 'for 3 of every 10 minutes the service answers every request with 503; deliveries go on',
  doomed: usual => usual,
  attended: true,
  fault: now => (now % CYCLE_MS >= DOWN_AFTER_MS ? { kind: 'status', status: 503 } : undefined),
};
