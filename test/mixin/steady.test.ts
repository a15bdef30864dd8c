import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { wronglyFired } from './fired.ts';

describe.skipIf(!requireProgram('promtool'))('scenarios of the emulator', () => {
  it('steady: an hour of a service in good health, but for one destination that leaves its dead letters to expire', async () => {
    expect(await wronglyFired(['DeliveryDlqAgeHigh'], { scenario: 'steady', minutes: 60 })).toBe('');
  });
});
