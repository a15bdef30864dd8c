import type { Scenario } from './scenario.ts';

export const steady: Scenario = {
  description: 'a service in good health: few messages fail, and people clear the dead letters now and then',
  doomed: usual => usual,
  attended: true,
};
