import type { ServiceClock } from '../upstream/api.ts';

/** The service's clock without its measurement. Times in the service's data are by this clock. */
export type ServiceTime = Omit<ServiceClock, 'startRequest' | 'largestSkew'>;

/** Uses the agent's clock, as long as the service's is unknown. */
export const AGENT_TIME: ServiceTime = {
  at: time => time,
  latest: time => time,
  skew: () => undefined,
  observeLog() {},
};
