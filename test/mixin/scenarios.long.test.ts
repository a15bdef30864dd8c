import { describe, expect, it } from 'vitest';
import { scenarios } from '../../src/emulator/server.ts';
import { requireProgram } from '../support/prometheus.ts';
import { unexpectedlyFired } from './fired.ts';

type Longer = Pick<Parameters<typeof unexpectedlyFired>[1], 'minutes' | 'step' | 'config'>;

/** Configuration with destinations and a schedule, like the demo's. */
const DEMO_LIKE = {
  collect: { events: { destination: 'host' } },
  schedules: [
    { name: 'reports', match: { scheduleId: 'scd_7minutely' }, cron: '* * * * *', grace: '59s', endsWithin: '5m' },
  ],
};

/** Eight hours, because fast-burn alerts use six-hour windows. */
const HOURS: Longer = { minutes: 8 * 60, step: 4 };

/** Scenarios that need more than three hours. */
const NEEDS: Readonly<Record<string, Longer>> = {
  neglected: HOURS,
  'dlq-growth': HOURS,
  'flow-control-pileup': HOURS,
  'ghost-slots': HOURS,
  // A callback must have been in progress for more than two days to count as stuck.
  'stuck-callback': {
    minutes: 50 * 60,
    step: 4,
    config: { collect: { flowControl: { every: '10m' }, dlq: { every: '10m' }, events: { every: '2m' } } },
  },
};

describe.skipIf(!requireProgram('promtool'))('scenarios of the emulator over hours', () => {
  const { steady, ...others } = scenarios;
  it.each(Object.entries(others))('the scenario %s fires exactly its declared alerts', async (scenario, { fires }) => {
    expect(await unexpectedlyFired(fires, { scenario, minutes: 180, config: DEMO_LIKE, ...NEEDS[scenario] })).toBe('');
  });
});
