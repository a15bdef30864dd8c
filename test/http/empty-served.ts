import type { Served } from '../../src/http/server.ts';
import { systemClock } from '../../src/kit/clock.ts';

/** What the port answers from where an agent has one account and nothing to say. */
export const emptyServed: Served = {
  version: '1.2.3',
  externalUrl: null,
  accounts: ['a'],
  exposition: async () => ({ contentType: 'text/plain', body: Buffer.from('# EOF\n') }),
  status: () => [],
  explain: () => [],
  journal: async () => [],
  alerts: () => [],
  command: async () => ({ ok: true }),
  reload: async () => ({ changed: [] }),
  reloadFaults: () => [],
  clock: systemClock,
};
