import { dlqGrowth } from './dlq-growth.ts';
import { flowControlPileup } from './flow-control-pileup.ts';
import { logLag } from './log-lag.ts';
import { outage } from './outage.ts';
import { rateLimited } from './rate-limited.ts';
import type { Scenario } from './scenario.ts';
import { steady } from './steady.ts';
import { stuckCallback } from './stuck-callback.ts';

/** Every scenario, by the name to ask for it. */
export const scenarios: Readonly<Record<string, Scenario>> = {
  steady,
  'dlq-growth': dlqGrowth,
  'stuck-callback': stuckCallback,
  'flow-control-pileup': flowControlPileup,
  'log-lag': logLag,
  'rate-limited': rateLimited,
  outage,
};

export function scenarioNamed(name: string): Scenario {
  const scenario = Object.hasOwn(scenarios, name) ? scenarios[name] : undefined;
  if (!scenario) throw new RangeError(`no scenario "${name}"; there are: ${Object.keys(scenarios).join(', ')}`);
  return scenario;
}
