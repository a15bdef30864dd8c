import { describe, expect, it } from 'vitest';
import { destinations } from '../../src/emulator/destinations.ts';
import { scenarios } from '../../src/emulator/server.ts';
import { requireProgram } from '../support/prometheus.ts';
import { allOr } from '../support/runs.ts';
import { unexpectedlyFired } from './fired.ts';

type Longer = Pick<Parameters<typeof unexpectedlyFired>[1], 'minutes' | 'step' | 'config' | 'destinations'>;

/** Configuration with destinations and a schedule, like the demo's. */
const DEMO_LIKE = {
  collect: { events: { destination: 'host' } },
  schedules: [
    { name: 'reports', match: { scheduleId: 'scd_7minutely' }, cron: '* * * * *', grace: '59s', endsWithin: '5m' },
  ],
};

const USUAL: Longer = { minutes: 180 };

/** Destinations with few messages. The others take most of the time of a test over days. */
const rare = destinations.filter(({ everyMs, burst }) => everyMs >= 40_000 && !burst);

/** Eight hours, because fast-burn alerts use six-hour windows. */
const HOURS: Longer = { minutes: 8 * 60, step: 4 };

/** Scenarios that need more than three hours. */
const NEEDS: Readonly<Record<string, Longer>> = {
  neglected: HOURS,
  'dlq-growth': HOURS,
  'flow-control-pileup': allOr(HOURS, USUAL),
  // A callback must have been in progress for more than two days to count as stuck.
  'stuck-callback': {
    minutes: 50 * 60,
    step: 4,
    destinations: () => allOr(destinations, rare),
    config: { collect: { flowControl: { every: '10m' }, dlq: { every: '10m' }, events: { every: '2m' } } },
  },
};

describe.skipIf(!requireProgram('promtool'))('scenarios of the emulator over hours', () => {
  const { steady, ...others } = scenarios;
  it.each(Object.entries(others))('the scenario %s fires exactly its declared alerts', async (scenario, { fires }) => {
    expect(await unexpectedlyFired(fires, { scenario, ...USUAL, config: DEMO_LIKE, ...NEEDS[scenario] })).toBe('');
  });
});
