import { describe, expect, it } from 'vitest';
import { scenarios } from '../../src/emulator/server.ts';
import { requireProgram } from '../support/prometheus.ts';
import { wronglyFired } from './fired.ts';

type Longer = Pick<Parameters<typeof wronglyFired>[1], 'minutes' | 'step' | 'config'>;

/** Days take minutes where rounds are seldom, and not every scrape is judged. */
const DAYS: Longer = {
  minutes: 48 * 60,
  step: 4,
  config: { collect: { flowControl: { every: '2m' }, dlq: { every: '2m' }, events: { every: '2m' } } },
};

/** An agent that knows the destinations and a schedule, as that of the demo does. */
const KNOWS = {
  collect: { events: { destination: 'host' } },
  schedules: [
    { name: 'reports', match: { scheduleId: 'scd_7minutely' }, cron: '* * * * *', grace: '59s', endsWithin: '5m' },
  ],
};

/** Long enough for the fast burns of error budgets, which need six hours. */
const HOURS: Longer = { minutes: 8 * 60, step: 4 };

/** Scenarios that three hours do not show completely. */
const NEEDS: Readonly<Record<string, Longer>> = {
  neglected: HOURS,
  'dlq-growth': HOURS,
  'flow-control-pileup': HOURS,
  'ghost-slots': HOURS,
  // A callback counts as stuck when it was seen in progress for more than two days.
  'stuck-callback': {
    minutes: 50 * 60,
    step: 4,
    config: { collect: { flowControl: { every: '10m' }, dlq: { every: '10m' }, events: { every: '2m' } } },
  },
};

describe.skipIf(!requireProgram('promtool'))('scenarios of the emulator', () => {
  it('steady: no alert in 48 hours', async () => {
    expect(await wronglyFired([], { scenario: 'steady', ...DAYS })).toBe('');
  });

  const { steady, ...others } = scenarios;
  it.each(Object.entries(others))('%s: exactly the alerts that it names', async (scenario, { fires }) => {
    expect(await wronglyFired(fires, { scenario, minutes: 180, config: KNOWS, ...NEEDS[scenario] })).toBe('');
  });
});
