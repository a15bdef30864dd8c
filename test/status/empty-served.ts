import { systemClock } from '../../src/kit/clock.ts';
import type { Served, Views } from '../../src/status/served.ts';
import { overview, row } from './page/fixtures/overview.ts';

const notGiven = () => Promise.reject(new Error('not given'));

export const emptyViews: Views = {
  externalUrl: null,
  accounts: ['a'],
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
  lookups: { dlq: notGiven, events: notGiven, message: notGiven },
  explain: async () => [],
  journal: async () => [],
  alerts: () => [],
};

const VIEWS = new Set(Object.keys(emptyViews));

export type ServedChanges = Partial<Served & Views>;

/** Returns the data source of an HTTP server for an agent with one account and no data, with these changes. */
export function servedWith(changes: ServedChanges = {}): Served {
  const entries = Object.entries(changes);
  const views = { ...emptyViews, ...Object.fromEntries(entries.filter(([key]) => VIEWS.has(key))) };
  return {
    version: '1.2.3',
    accounts: views.accounts,
    exposition: async () => ({ contentType: 'text/plain', body: Buffer.from('# EOF\n') }),
    views: () => views,
    command: async () => ({ ok: true }),
    reload: async () => ({ changed: [] }),
    reloadErrors: () => [],
    clock: systemClock,
    ...Object.fromEntries(entries.filter(([key]) => !VIEWS.has(key))),
  };
}
