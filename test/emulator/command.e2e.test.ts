import { expect, onTestFinished, test } from 'vitest';
import { type Emulator, scenarios } from '../../src/emulator/server.ts';
import { runCli, startCli } from '../support/cli.ts';
import { ask } from './emulated.ts';

test('emulate --help lists the options, the faults, and the scenarios with their alerts', async () => {
  const { code, stdout } = await runCli(['emulate', '--help']);
  expect(code).toBe(0);
  for (const [name, { description, fires }] of Object.entries(scenarios)) {
    const [, block = ''] = new RegExp(`^  ${name}\n((?: {6}.*\n)+)`, 'm').exec(stdout) ?? [];
    expect(block).toContain(description);
    expect(/^ {6}alerts: (.*)$/m.exec(block)?.[1]?.split(', ') ?? []).toEqual(fires);
  }
  for (const text of [
    '--port <n>',
    'cancelAnswer=302|302-location',
    'logLagMs=0',
    'latencyMs',
    'truncate: half a body',
  ])
    expect(stdout).toContain(text);
  expect(await runCli(['help', 'emulate'])).toMatchObject({ code: 0, stdout: expect.stringContaining('--scenario') });
});

test('demo --help lists the scenarios', async () => {
  const { stdout } = await runCli(['demo', '--help']);
  for (const [name, { description }] of Object.entries(scenarios)) {
    expect(stdout).toContain(`\n  ${name}\n      ${description}\n`);
  }
});

test.each([
  [['--option', 'colour=red'], 'there is no option "colour"'],
  [['--option', 'eventTime=date'], 'eventTime must be one of text, number'],
  [['--fault', 'kind=explode'], 'invalid fault: kind: '],
])('emulate %j exits with code 2 and prints the error', async (args, reason) => {
  const { code, stderr } = await runCli(['emulate', '--port', '0', ...args]);
  expect(code).toBe(2);
  expect(stderr).toContain(reason);
});

test('emulate accepts options and faults', async () => {
  const args = ['--option', 'flowControlList=array', '--option', 'retryAfter=present'];
  const fault = 'kind=status,status=502,endpoint=GET /v2/dlq,times=1,acts=true';
  const cli = startCli(['emulate', '--port', '0', '--speed', '0', ...args, '--fault', fault]);
  try {
    const [, url = ''] = await cli.says(/url\s+(\S+)/);
    const [, token = ''] = await cli.says(/token\s+(\S+)/);
    const get = (path: string) => fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
    expect(Array.isArray(await (await get('/v2/flowControl')).json())).toBe(true);
    expect([(await get('/v2/dlq')).status, (await get('/v2/dlq')).status]).toEqual([502, 200]);
    const state = (await (await fetch(`${url}/_emulator/state`)).json()) as { dialect: object; faults: object };
    expect(state.dialect).toMatchObject({ flowControlList: 'array', retryAfter: 'present' });
    expect(state.faults).toMatchObject([{ fault: { status: 502, times: 1, acts: true }, struck: 1 }]);
  } finally {
    cli.kill('SIGTERM');
  }
  expect(await cli.ended).toBe(0);
});

test('emulate --clock-skew shifts the clock of the service', async () => {
  const cli = startCli(['emulate', '--port', '0', '--clock-skew', '-600']);
  onTestFinished(async () => {
    cli.kill('SIGKILL');
    await cli.ended;
  });
  const [, url = ''] = await cli.says(/url +(\S+)\n(?:.*\n)+The clock of this service is 600 s behind\./);
  const date = (await fetch(url)).headers.get('date');
  expect(Math.abs(Date.now() - 600_000 - Date.parse(date ?? ''))).toBeLessThan(60_000);
});

test.each([
  ['60', /Time runs 60 times as fast for this service alone\. Agents and Prometheus keep real time/],
  ['0', /The clock of this service is stopped\./],
])('emulate --speed %s prints how the emulated clock differs from real time', async (speed, note) => {
  const cli = startCli(['emulate', '--port', '0', '--speed', speed]);
  try {
    await cli.says(note);
  } finally {
    cli.kill('SIGTERM');
  }
  expect(await cli.ended).toBe(0);
});

test('emulate prints the secrets of each account', async () => {
  const cli = startCli(['emulate', '--port', '0', '--accounts', '2']);
  onTestFinished(async () => {
    cli.kill('SIGKILL');
    await cli.ended;
  });
  const [, url = '', first = '', second = ''] = await cli.says(
    /url +(\S+)\n +token +(\S+)\n(?:.*\n){2}Account 2:\n +token +(\S+)\n +read-only +\S+\n +account +owner-2@example\.com:\S+\nStop/,
  );
  const listed = async (token: string) => (await ask({ url, token } as Emulator, '/v2/events')).body.events;
  const [one, two] = [await listed(first), await listed(second)];
  expect(one.length).toBeGreaterThan(100);
  expect(two.length).toBeGreaterThan(100);
  expect(one[0].messageId).not.toBe(two[0].messageId);
});
