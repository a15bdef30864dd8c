import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { unlimited } from '../support/agent.ts';
import { mainFile } from '../support/bundle.ts';
import { runCli } from '../support/cli.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { newFolder } from '../support/folder.ts';
import { json, serve } from '../support/http-service.ts';

/** Writes a configuration. Returns the file, and a function that runs a command with it. */
function configure(accounts: readonly object[], more: object = {}, token = 'secret-token') {
  const file = join(newFolder(), 'config.yaml');
  writeFileSync(file, JSON.stringify({ store: { kind: 'memory' }, accounts, ...more }));
  const env = { DELIVERY_TOKEN: token };
  const run = (command: string, options: Readonly<Record<string, string>> = {}) =>
    runCli([...command.split(' '), '--config', file], { ...env, ...options });
  return { run, file, env };
}

const NOW = Date.now();

/** Starts a service with three dead letters and the events of one message in flight, and configures an account for it. */
async function emulated(dialect = {}) {
  const emulator = await emulateEmpty({ dialect });
  for (const [index, responseStatus] of [500, 503, 500].entries()) {
    const row = { messageId: `dead_${index}`, responseStatus, queueName: `q${index}`, enteredAt: NOW - index * 1000 };
    emulator.state.addDlqEntry({ ...row, url: `https://user:canary@a.example/x/${index}?k=canary`, body: 'canary' });
  }
  const life = { messageId: 'msg_life', url: 'https://a.example/y', header: { 'x-key': ['canary'] } };
  emulator.state.addEvents([
    { ...life, state: 'created', time: NOW - 60_000 },
    { ...life, state: 'active', time: NOW - 59_000 },
    { ...life, state: 'error', time: NOW - 57_000, responseStatus: 502, error: 'connection reset' },
    { ...life, state: 'retry', time: NOW - 57_000, nextDeliveryTime: NOW + 120_000 },
  ]);
  return { emulator, ...configure([unlimited('production', emulator.url)], {}, emulator.token) };
}

describe('list', () => {
  it('list prints tables, JSON and ids of dead letters, events and keys', async () => {
    const { emulator, run } = await emulated();
    emulator.state.setWaitlist('mail', 3);
    const [table, rows, ids, kind, noTable, noneOfAll, events, keys] = await Promise.all([
      run('list dlq', { COLUMNS: '80' }),
      run('list dlq --status 500 --json'),
      run('list dlq --status 500 --ids --limit 1'),
      run('list dlq --kind 000000000000 --ids'),
      run('list dlq --url https://a.example/none'),
      run('list dlq --status 404 --all --json'),
      run('list events --state in_progress --all --json'),
      run('list keys'),
    ]);
    const lines = table.stdout.trimEnd().split('\n');
    expect(lines.map(line => /dead_\d/.exec(line)?.[0])).toEqual([undefined, 'dead_0', 'dead_1', 'dead_2']);
    expect(Math.max(...lines.map(line => line.length))).toBeLessThanOrEqual(80);
    const found = rows.stdout
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line));
    expect(found).toMatchObject([
      { account: 'production', messageId: 'dead_0', responseStatus: 500, url: 'https://a.example/x/0?…' },
      { messageId: 'dead_2' },
    ]);
    expect(ids).toMatchObject({ code: 0, stderr: 'More rows exist: raise --limit, or use --all.\n' });
    expect(ids.stdout).toBe(`${found[0].dlqId}\n`);
    for (const none of [kind, noTable, noneOfAll])
      expect(none).toEqual({ code: 0, stdout: '', stderr: 'no rows match\n' });
    expect(
      events.stdout
        .trimEnd()
        .split('\n')
        .map(line => JSON.parse(line).state),
    ).toEqual(['retry', 'error', 'active']);
    expect(keys).toEqual({ code: 0, stdout: 'waiting  key\n      3  mail\n', stderr: '' });
    for (const { stdout, stderr } of [table, rows, ids, events, keys]) expect(stdout + stderr).not.toContain('canary');
    const same = await run(`list dlq --kind ${found[0].kind} --ids`);
    expect(same.stdout).toBe(`${found[0].dlqId}\n${found[1].dlqId}\n`);
    const ofHost = await run('list dlq --status 500 --host a.example --ids');
    expect(ofHost.stdout).toBe(same.stdout);
    const others = await run('list dlq --host a.example --callback-state fail --ids');
    expect(others).toEqual({ code: 0, stdout: '', stderr: 'no rows match\n' });
  });

  it.each<[string, string | RegExp]>([
    ['list events --status 500', '--status is a filter of dlq'],
    ['list keys --caller-ip 192.0.2.1', '--caller-ip is a filter of dlq'],
    ['list events --kind abc', '--kind is a filter of dlq'],
    ['list dlq --host https://a.example/x', '--host must be a host such as app.example.com or app.example.com:8080'],
    [
      'list dlq --callback-state stuck',
      '--callback-state must be one of in_progress, success, fail, canceled, unknown',
    ],
    ['list dlq --state FAILED', '--state is a filter of events'],
    ['list dlq --url a.example/x', '--url must be a complete URL such as https://app.example.com/api/onboarding'],
    ['list dlq --since yesterday', 'is invalid. It must be a time such as 2026-11-22T06:00:00Z, or a duration'],
    [
      'list dlq --limit x',
      "error: option '--limit <n>' argument 'x' is invalid. It must be a number from 1 to 1000000.\n",
    ],
    ['report --format html', 'is invalid. Allowed choices are text, markdown, json.\n'],
    ['list', /^error: name a command: dlq, events, [a-z, ]+\n\nUsage: /],
    ['list dlq --account other', 'has no account other'],
    ['message a/b', 'the message id must be'],
  ])('the program rejects `%s` as a usage error', async (command, message) => {
    const { code, stdout, stderr } = await configure([unlimited('a', 'http://127.0.0.1:9')]).run(command);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
  });

  it('list fails if the service ignores a filter, and warns if the rows cannot prove that it was applied', async () => {
    const { run } = await emulated({ filters: { queueName: 'ignored' } });
    expect(await run('list dlq --queue q1')).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /^production: the service ignores the parameter queueName: .*\nnot read: production\n$/,
      ),
    });
    const plain = await serve((_request, response) => json(response, { messages: [{ messageId: 'm' }] }));
    const unproven = await configure([unlimited('a', plain.url)]).run('list dlq --queue q1');
    expect(unproven).toMatchObject({ code: 0, stderr: expect.stringContaining('a: a filter is unproven') });
  });

  it('list prints the rows of the other accounts if one account fails', async () => {
    const { emulator } = await emulated();
    const failing = await serve((_request, response) => response.writeHead(403).end());
    const accounts = [unlimited('failing', failing.url), unlimited('good', emulator.url)];
    const { code, stdout, stderr } = await configure(accounts, {}, emulator.token).run('list dlq');
    expect(code).toBe(1);
    expect(stdout).toMatch(/\ngood +.*dead_0/);
    expect(stderr).toMatch(/^failing: .*\nnot read: failing\n$/);
  });

  it('list exits with 0 when the reader of an endless list closes the pipe', async () => {
    let page = 0;
    const endless = await serve((_request, response) => {
      page += 1;
      const messages = Array.from({ length: 100 }, (_, row) => ({ dlqId: `${NOW - page * 1000 - row}-1` }));
      json(response, { messages, cursor: String(page) });
    });
    const { file, env } = configure([unlimited('a', endless.url)]);
    const command = `"$NODE" "$MAIN" list dlq --all --ids --config "$FILE" | head -3; exit "\${PIPESTATUS[0]}"`;
    const shell = spawn('bash', ['-c', command], {
      env: { ...env, NODE: process.execPath, MAIN: mainFile(), FILE: file },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [stdout, stderr] = ['', ''];
    shell.stdout.on('data', chunk => (stdout += chunk));
    shell.stderr.on('data', chunk => (stderr += chunk));
    const [code] = await once(shell, 'close');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.trimEnd().split('\n')).toHaveLength(3);
    const limited = await configure([unlimited('a', endless.url)]).run('list dlq --ids');
    expect(limited).toMatchObject({ code: 0, stderr: expect.stringContaining('More rows exist') });
  });

  it('list waits after a 429, and fails if the service hangs', async () => {
    let calls = 0;
    const busy = await serve((_request, response) => {
      calls += 1;
      if (calls === 1) response.writeHead(429, { 'retry-after': '3' }).end();
      else json(response, { messages: [] });
    });
    const hung = await serve();
    const [waited, failed] = await Promise.all([
      configure([unlimited('a', busy.url)]).run('list dlq --ids'),
      configure([{ ...unlimited('a', hung.url), upstream: { timeout: '1s' } }]).run('list dlq --ids'),
    ]);
    expect(waited).toMatchObject({
      code: 0,
      stderr: 'no rows match\n',
    });
    expect(failed).toMatchObject({ code: 1, stderr: expect.stringMatching(/^a: .*\nnot read: a\n$/) });
  });
});

it.each(['list dlq', 'list dlq --all', 'report'])(
  '%s exits with 1 and prints one line if its output device is full',
  async command => {
    const { file, env } = await emulated();
    const shell = spawn('bash', ['-c', `"$NODE" "$MAIN" ${command} --config "$FILE" > /dev/full`], {
      env: { ...env, NODE: process.execPath, MAIN: mainFile(), FILE: file },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let stderr = '';
    shell.stderr.on('data', chunk => (stderr += chunk));
    const [code] = await once(shell, 'close');
    const lines = stderr.split('\n').filter(line => !line.startsWith('No running agent'));
    expect({ code, lines }).toEqual({
      code: 1,
      lines: ['standard output: ENOSPC: no space left on device, write', ''],
    });
  },
);

describe('message', () => {
  it('message prints the timeline of a message in flight, and the dead letter of a message without events', async () => {
    const { run } = await emulated();
    const [flying, dead, found, missing] = await Promise.all([
      run('message msg_life'),
      run('message dead_1'),
      run('message msg_life --json'),
      run('message msg_none'),
    ]);
    expect(flying.stdout).toMatch(
      /active +attempt 1\n.*error +attempt 1, status 502, took 2 s, error: connection reset\n.*retry +next delivery/,
    );
    expect(flying.stdout).toMatch(
      /\nIn flight after 1 attempt; the next delivery is due at .*\nNot in the dead-letter queue/,
    );
    expect(dead.stdout).toMatch(/\nIn the dead-letter queue since .*, last attempt: status 503\.\n/);
    expect(dead.stdout).toContain('The event log contains no event of this message.');
    expect(JSON.parse(found.stdout)).toMatchObject({ messageId: 'msg_life', attempts: 1, deadLetter: null });
    expect(missing).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('contains msg_none') });
    for (const { stdout, stderr } of [flying, dead, found]) expect(stdout + stderr).not.toContain('canary');
  });
});
