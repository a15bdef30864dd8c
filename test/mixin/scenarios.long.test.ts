import { describe, expect, it } from 'vitest';
import { scenarios } from '../../src/emulator/server.ts';
import { requireProgram } from '../support/prometheus.ts';
import { wronglyFired } from './fired.ts';

/** Rounds as seldom as scrapes: days take minutes. */
const SELDOM = { collect: { flowControl: { every: '1m' }, dlq: { every: '1m' }, events: { every: '1m' } } };

/** Where three hours do not show everything. */
const LONGER: Readonly<Record<string, { minutes: number; config?: typeof SELDOM }>> = {
  'flow-control-pileup': { minutes: 240 },
  'stuck-callback': { minutes: 24 * 60, config: SELDOM },
};

describe.skipIf(!requireProgram('promtool'))('scenarios of the emulator', () => {
  it('steady: no alert in 48 hours', async () => {
    expect(await wronglyFired([], { scenario: 'steady', minutes: 48 * 60, config: SELDOM })).toBe('');
  });

  it.each(Object.entries(scenarios))('%s: exactly the alerts that it names', async (scenario, { fires }) => {
    expect(await wronglyFired(fires, { scenario, minutes: 180, ...LONGER[scenario] })).toBe('');
  });
});
