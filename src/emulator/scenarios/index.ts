import { dlqGrowth } from './dlq-growth.ts';
import type { Scenario } from './scenario.ts';
import { steady } from './steady.ts';

/** Every scenario, by the name to ask for it. */
export const scenarios: Readonly<Record<string, Scenario>> = {
  steady,
  'dlq-growth': dlqGrowth,
};

export function scenarioNamed(name: string): Scenario {
  const scenario = Object.hasOwn(scenarios, name) ? scenarios[name] : undefined;
  if (!scenario) throw new RangeError(`no scenario "${name}"; there are: ${Object.keys(scenarios).join(', ')}`);
  return scenario;
}
