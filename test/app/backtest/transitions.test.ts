import { expect, it } from 'vitest';
import { compare } from './transitions.ts';

it('tells every transition of every alert that a running agent tells, to the millisecond', async () => {
  const alerts = await compare(4 * 3_600_000, '60s');
  for (const { name, live, backtest } of alerts) expect({ name, told: backtest }).toEqual({ name, told: live });
  expect(alerts.flatMap(({ backtest }) => backtest).length).toBeGreaterThan(5);
});
