import { expect, it } from 'vitest';
import { demoAccount, demoSettings, demoSpeed } from '../../src/cli/demo-settings.ts';
import { Config } from '../../src/config/schema.ts';
import { EmulatedCredentials } from '../../src/emulator/credentials.ts';
import { scenarios } from '../../src/emulator/scenarios.ts';

const configOf = (scenario: string, speed: number) => {
  const emulator = {
    url: 'http://127.0.0.1:1',
    token: 'token',
    credentials: new EmulatedCredentials('owner@example.com'),
  };
  return Config.safeParse({ ...demoSettings(scenario, speed), accounts: [demoAccount('demo', scenario, emulator)] });
};

it.each(Object.keys(scenarios))(
  'the demo settings of the scenario %s are valid at its default speed, in real time and at maximum speed',
  scenario => {
    const own = demoSpeed(scenario);
    expect(own).toBeGreaterThanOrEqual(1);
    for (const speed of [own, 1, 3600]) expect(configOf(scenario, speed).error).toBeUndefined();
  },
);

it('the demo reads the dead-letter queue every five real seconds at speeds 1 and 60, and configures retention times', () => {
  const [real, fast] = [1, 60].map(speed => configOf('dlq-growth', speed).data);
  expect(real?.collect.dlq.every).toBe(5000);
  expect(fast?.collect.dlq.every).toBe(300_000);
  expect(fast?.accounts[0]?.retention).toEqual({ dlq: 3 * 86_400_000, events: 3 * 3_600_000 });
  expect(demoSpeed('steady')).toBe(1);
});
