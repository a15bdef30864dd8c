import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runCli } from '../support/cli.ts';
import { emulate } from '../support/emulate.ts';
import { newFolder } from '../support/folder.ts';

const RULES = [
  {
    name: 'AnyRetry',
    when: { growth: { metric: 'delivery_events_total', labels: { state: 'retry' }, over: '5m', atLeast: 1 } },
  },
  { name: 'Waiting', when: { above: { metric: 'delivery_flow_control_waitlist_size', value: 100 } } },
];

it('prints a table for each account, exits 1 where one can’t be read, and stores nothing', async () => {
  const { url, token } = await emulate();
  const folder = newFolder();
  const store = join(folder, 'store.db');
  const config = join(folder, 'config.yaml');
  const budget = { requestsPerSecond: 500, burst: 500 };
  const accounts = [
    { name: 'good', baseUrl: url, token, budget },
    { name: 'refused', baseUrl: url, token: 'wrong', budget },
  ];
  writeFileSync(config, JSON.stringify({ accounts, store: { path: store }, alerts: { enabled: true, rules: RULES } }));
  const run = (...more: string[]) => runCli(['rules', 'backtest', '--config', config, '--last', '1d', ...more]);
  const one = await run('--account', 'good');
  expect(one.stdout).toMatch(/^good: .* UTC\n[\d,]+ events, \d+ calls\n/);
  expect(one.stdout).toMatch(/^AnyRetry +\d+ /m);
  expect(one.stdout).toMatch(/^Waiting +\?$/m);
  expect(one.stderr).toContain('good: its budget allows 500 calls a second');
  expect(one.code).toBe(0);
  const both = await run('--json');
  const told = JSON.parse(both.stdout);
  expect(
    told.accounts.map(({ account, failure }: { account: string; failure: string | null }) => [
      account,
      failure === null,
    ]),
  ).toEqual([
    ['good', true],
    ['refused', false],
  ]);
  expect(told.accounts[0].alerts[0]).toMatchObject({ name: 'AnyRetry', verdict: 'fired' });
  expect(both.stderr).toContain('not complete: refused\n');
  expect(both.code).toBe(1);
  expect((await run('--account', 'nobody')).code).toBe(2);
  expect((await runCli(['rules', 'backtest', '--config', config, '--from', 'yesterday'])).code).toBe(2);
  expect((await runCli(['rules', 'backtest', '--config', config, '--from', '2999-01-01'])).code).toBe(2);
  expect(existsSync(store)).toBe(false);
});
