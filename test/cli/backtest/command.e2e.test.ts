import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { runCli } from '../../support/cli.ts';
import { emulateEmpty } from '../../support/emulate.ts';
import { newFolder } from '../../support/folder.ts';

const MINUTE = 60_000;

it('rules backtest prints each change, a line for each rule and the number of requests, and exits with 1 if an account fails', async () => {
  const emulator = await emulateEmpty();
  const config = join(newFolder(), 'config.yaml');
  const recent = { metric: 'delivery_events_recent', labels: { state: 'created' } };
  const rules = [
    { name: 'Created', when: { above: { ...recent, value: 0 } } },
    { name: 'Dlq', when: { above: { metric: 'delivery_dlq_messages', value: 1 } } },
  ];
  const account = { name: 'a', baseUrl: emulator.url, token: { env: 'DELIVERY_TOKEN' } };
  writeFileSync(
    config,
    JSON.stringify({ store: { kind: 'memory' }, accounts: [account], alerts: { builtin: null, rules } }),
  );
  const from = Math.floor(Date.now() / MINUTE - 60) * MINUTE;
  emulator.state.addEvents([{ messageId: 'm', state: 'created', time: from }]);
  const text = (time: number) => new Date(time).toISOString().replace('.000', '');
  const command = ['rules', 'backtest', '--config', config, '--since', '2h'];
  const { code, stdout, stderr } = await runCli(command, { DELIVERY_TOKEN: emulator.token });
  expect(stderr).toBe('');
  expect(code).toBe(0);
  const [firing, resolved, total, ...lines] = stdout.trimEnd().split('\n');
  expect(firing).toBe(`${text(from)} a Created{state="created"} firing 1`);
  expect(resolved).toBe(`${text(from + 5 * MINUTE + 15_000)} a Created{state="created"} resolved 1 after 5 min`);
  expect(total).toMatch(/^a: \S+Z to \S+Z; 1 event read with \d+ requests of the day's budget$/);
  expect(lines).toEqual([
    'a: Created: fired 1 time, 5 min in all',
    'a: Dlq: unknown: the event log does not contain delivery_dlq_messages',
  ]);
  emulator.faults.add({ kind: 'status', status: 403 });
  const failed = await runCli(command, { DELIVERY_TOKEN: emulator.token });
  expect(failed).toMatchObject({ code: 1, stdout: '' });
  expect(failed.stderr).toMatch(/^a: .*403/);

  const other = await emulateEmpty();
  other.state.addEvents([{ messageId: 'm', state: 'created', time: from }]);
  const accounts = [account, { name: 'b', baseUrl: other.url, token: { env: 'OTHER' } }];
  writeFileSync(config, JSON.stringify({ store: { kind: 'memory' }, accounts, alerts: { builtin: null, rules } }));
  const partly = await runCli(command, { DELIVERY_TOKEN: emulator.token, OTHER: other.token });
  expect(partly.code).toBe(1);
  expect(partly.stderr).toMatch(/^a: .*403[^\n]*\n$/);
  expect(partly.stdout).toContain('b: Created: fired 1 time, 5 min in all\n');
});
