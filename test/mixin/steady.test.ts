import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { wronglyFired } from './fired.ts';

describe.skipIf(!requireProgram('promtool'))('scenarios of the emulator', () => {
  it.each([['steady', 180, []]])('%s for %i minutes', async (scenario, minutes, names) => {
    expect(await wronglyFired(names, { scenario, minutes })).toBe('');
  });
});
