import { expect, it } from 'vitest';
import { runCli, startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { emulate } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';

const NO_CONFIG = 'error: no configuration found: use --config FILE, $DELIVERY_WATCH_CONFIG,';

it('an agent and its commands need only an address and a token in the environment', async () => {
  const emulator = await emulate();
  const env = { QSTASH_URL: emulator.url, QSTASH_TOKEN: emulator.token, DELIVERY_WATCH_DATA: newFolder() };
  const agent = startCli(['serve'], env);
  afterThisTest(async () => {
    agent.kill('SIGTERM');
    expect(await agent.ended).toBe(0);
  });
  const url = await agent.listensAt();
  await eventually(async () => {
    expect(await (await fetch(`${url}/metrics`)).text()).toContain('delivery_up{account="default"} 1');
  });
  // A reload reads the same variables.
  agent.kill('SIGHUP');
  await agent.says(/configuration unchanged|configuration reloaded/);
  const commands = [['report'], ['healthcheck'], ['list', 'dlq', '--limit', '1'], ['plan'], ['snapshot']];
  for (const command of commands) {
    const { code, stderr } = await runCli(command, env);
    expect([command, code === 2, stderr.includes(NO_CONFIG)]).toEqual([command, false, false]);
  }
  expect((await runCli(['healthcheck'], env)).code).toBe(0);
  expect(agent.stderr() + agent.stdout()).not.toContain(emulator.token);
});

it.each([['serve'], ['report'], ['list', 'dlq'], ['auto-cancel', 'journal'], ['healthcheck']])(
  'the command %s %s without any configuration names the places that it searches',
  async (...command) => {
    const { code, stdout, stderr } = await runCli(command.filter(Boolean));
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(NO_CONFIG);
    expect(stderr).toContain('DELIVERY_URL and DELIVERY_TOKEN');
  },
);

it.each([
  ['serve --confg x', "unknown option '--confg'"],
  ['message', "missing required argument 'id'"],
  ['auto-cancel reset-breaker foo --reason x', "'foo' is invalid for argument 'breaker'"],
])('the command %s without any configuration reports the mistake in the command', async (line, mistake) => {
  const { code, stderr } = await runCli(line.split(' '));
  expect(code).toBe(2);
  expect(stderr).toContain(mistake);
  expect(stderr).not.toContain(NO_CONFIG);
});
