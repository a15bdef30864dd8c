import type { Scenario } from './scenario.ts';

/** The usual share is added once more every so often. */
const STEP_MS = 10 * 60_000;

/** With more failures than this, retries would overload some flow-control keys, and their waitlists would grow for ever. */
const MOST = 0.12;

export const dlqGrowth: Scenario = {
  description: 'more and more messages fail, and nobody clears the dead letters',
  doomed: (usual, elapsedMs) => Math.min(MOST, usual * (1 + elapsedMs / STEP_MS)),
  attended: false,
};
