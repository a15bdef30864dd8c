import { describe, expect, it } from 'vitest';
import { alertGroups } from '../../mixin/rules.ts';
import { scenarios } from '../../src/emulator/server.ts';
import { requireProgram } from '../support/prometheus.ts';
import { wronglyFired } from './fired.ts';

describe.skipIf(!requireProgram('promtool'))('scenarios of the emulator', () => {
  it('steady: no alert in an hour of a service in good health', async () => {
    expect(await wronglyFired([], { scenario: 'steady', minutes: 60 })).toBe('');
  });

  it('dlq-growth: told within a quarter of an hour, though nothing is known of the time before', async () => {
    const fired = ['DeliveryDlqAgeHigh', 'DeliveryDlqGrowing'];
    expect(await wronglyFired(fired, { scenario: 'dlq-growth', minutes: 16 })).toBe('');
  });
});

it('name alerts that there are', () => {
  const names = new Set<string>(alertGroups.flatMap(({ alerts }) => alerts.map(({ name }) => name)));
  const unknown = Object.values(scenarios).flatMap(({ fires }) => fires.filter(name => !names.has(name)));
  expect(unknown).toEqual([]);
});
