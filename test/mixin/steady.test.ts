import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { wronglyFired } from './fired.ts';

describe.skipIf(!requireProgram('promtool'))('scenarios of the emulator', () => {
  it('steady: an hour of a service in good health', async () => {
    expect(await wronglyFired([], { scenario: 'steady', minutes: 60 })).toBe('');
  });
});
