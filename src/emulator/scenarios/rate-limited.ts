import type { Scenario } from './scenario.ts';

export const rateLimited: Scenario = {
  description: 'the account may ask twice a second; what is more gets 429',
  doomed: usual => usual,
  attended: true,
  dialect: { requestsPerSecond: 2 },
};
