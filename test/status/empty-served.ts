import { systemClock } from '../../src/kit/clock.ts';
import type { Served } from '../../src/status/served.ts';
import { overview, row } from './page/fixtures/overview.ts';

const notGiven = () => Promise.reject(new Error('not given'));

/** Data source of an HTTP server for an agent with one account and no data. */
export const emptyServed: Served = {
  version: '1.2.3',
  externalUrl: null,
  accounts: ['a'],
  exposition: async () => ({ contentType: 'text/plain', body: Buffer.from('# EOF\n') }),
  status: () => [],
  overview: async () => overview([row('a')]),
  report: async () => ({
    now: '2026-01-01T00:00:00.000Z',
    version: '1.2.3',
    externalUrl: null,
    verdict: 'unknown',
    agent: { verdict: 'healthy', problems: [] },
    accounts: [],
  }),
  account: () => undefined,
  history: async () => undefined,
  autoCancel: notGiven,
  agent: notGiven,
  lookups: { dlq: notGiven, events: notGiven, message: notGiven },
  explain: async () => [],
  journal: async () => [],
  alerts: () => [],
  command: async () => ({ ok: true }),
  reload: async () => ({ changed: [] }),
  reloadErrors: () => [],
  watch: () => () => false,
  clock: systemClock,
};
