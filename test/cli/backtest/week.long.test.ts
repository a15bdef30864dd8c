import { expect, it } from 'vitest';
import { destinations } from '../../../src/emulator/destinations.ts';
import { allOr } from '../../support/runs.ts';
import { compare } from './comparison.ts';
import { RULES } from './rules.ts';

const MINUTE = 60_000;
const DAYS = allOr(7, 2);

it(`rules backtest of ${DAYS} days reports alert changes at the same evaluations as an agent that was running at the time`, async () => {
  const { live, past, result } = await compare({
    scenario: 'flow-control-pileup',
    length: DAYS * 24 * 60 * MINUTE,
    every: MINUTE,
    // Use few messages: the test spends most of its time sending each event over HTTP twice.
    destinations: destinations.filter(({ everyMs }) => everyMs >= 40_000 && everyMs !== 200_000),
    config: { alerts: { enabled: true, evaluateEvery: '1m', rules: RULES } },
  });
  expect(past).toEqual(live);
  const fired = result?.rules.map(({ rule, fired }) => `${rule} ${fired}`).join(', ');
  process.stdout.write(`${DAYS} days, ${result?.events} events: ${fired}\n`);
  const often = new Set(RULES.map(({ name }) => name));
  for (const { rule, fired } of result?.rules ?? []) if (often.has(rule)) expect(fired, rule).toBeGreaterThan(5);
}, 1_200_000);
