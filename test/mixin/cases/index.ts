import { agentCases } from './agent.ts';
import type { AlertCase } from './case.ts';
import { dlqCases } from './dlq.ts';
import { flowControlCases } from './flow-control.ts';
import { messageCases } from './messages.ts';
import { scheduleCases } from './schedules.ts';

/** Cases of all alerts that depend on an account. */
export const alertCases: readonly AlertCase[] = [
  ...agentCases,
  ...messageCases,
  ...dlqCases,
  ...flowControlCases,
  ...scheduleCases,
];

/** Throws an Error if the alert has no case. */
export function caseOf(name: string): AlertCase {
  const found = alertCases.find(({ alert }) => alert === name);
  if (!found) throw new Error(`there is no case of ${name}`);
  return found;
}
