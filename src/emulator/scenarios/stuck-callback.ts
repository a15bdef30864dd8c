import type { Scenario } from './scenario.ts';

/** Before this, measured from the beginning of the workload, no callback was stuck. */
const SINCE_MS = -12 * 3_600_000;

export const stuckCallback: Scenario = {
  description: 'more workflow runs fail, and one failure callback in eight hangs and never ends',
  doomed: usual => usual,
  attended: true,
  runFailsEveryMs: 4 * 60_000,
  stuck: elapsedMs => (elapsedMs < SINCE_MS ? 0 : 0.125),
};
