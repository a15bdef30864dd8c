import { describe, expect, it } from 'vitest';
import { alerts } from '../../mixin/rules.ts';
import { scenarios } from '../../src/emulator/server.ts';
import { requireProgram } from '../support/prometheus.ts';
import { unexpectedlyFired } from './fired.ts';

describe.skipIf(!requireProgram('promtool'))('short scenarios of the emulator', () => {
  it('the scenario steady fires no alert in an hour', async () => {
    expect(await unexpectedlyFired([], { scenario: 'steady', minutes: 60 })).toBe('');
  });

  it('the scenario dlq-growth fires the alerts on a growing queue within 16 minutes, without earlier data', async () => {
    const fired = ['DeliveryDlqAgeHigh', 'DeliveryDlqGrowing'];
    expect(await unexpectedlyFired(fired, { scenario: 'dlq-growth', minutes: 16 })).toBe('');
  });
});

it('scenarios declare only existing alerts', () => {
  const names = new Set<string>(alerts.map(({ name }) => name));
  const unknown = Object.values(scenarios).flatMap(({ fires }) => fires.filter(name => !names.has(name)));
  expect(unknown).toEqual([]);
});
