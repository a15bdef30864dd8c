import { expect, it } from 'vitest';
import { compare } from './transitions.ts';

const WEEK = 7 * 86_400_000;

it('tells every transition of a week that a running agent tells, to the millisecond', async () => {
  const alerts = await compare(WEEK, '60s');
  for (const { name, live, backtest } of alerts) expect({ name, told: backtest }).toEqual({ name, told: live });
  for (const { name, backtest } of alerts) expect(backtest.length, name).toBeGreaterThan(5);
  const told = alerts.map(({ name, backtest }) => `${name} ${backtest.length}`).join(', ');
  process.stdout.write(`a week, backtest and running agent told the same: ${told}\n`);
}, 600_000);
