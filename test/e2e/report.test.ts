import { readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { createStoredKey, writeAgentUrl } from '../../src/agent/peer-key.ts';
import { openStore } from '../../src/store/open.ts';
import { createAgent, unlimited } from '../support/agent.ts';
import { mainFile } from '../support/bundle.ts';
import { runCli } from '../support/cli.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { json, serve } from '../support/http-service.ts';
import { requireProgram } from '../support/prometheus.ts';
import { run } from '../support/run.ts';

const CANARY = 'token-canary';
const DAY = 86_400_000;

/** Creates a service and an agent that is not started. `accounts`: additional accounts. */
async function setUp(accounts: readonly object[] = [], more: object = {}) {
  const emulator = await emulateEmpty({ token: CANARY });
  const env = { DELIVERY_TOKEN: CANARY };
  const agent = createAgent({ accounts: [unlimited('production', emulator.url), ...accounts], ...more }, env);
  async function report(...options: readonly string[]) {
    const result = await runCli(['report', '--config', agent.configFile, ...options], env);
    expect(result.stdout + result.stderr).not.toContain(CANARY);
    return result;
  }
  return { emulator, agent, report };
}

const addDeadLetter = ({ emulator }: Awaited<ReturnType<typeof setUp>>) =>
  emulator.state.addDlqEntry({
    messageId: 'm',
    url: 'https://a.example/x?key=token-canary',
    enteredAt: Date.now() - 2 * DAY,
    body: CANARY,
  });

/** Runs the chat script of docs/inspect.md with a configuration and returns the bodies of the script's requests. */
async function runChatScript(config: string, env: Readonly<Record<string, string>>): Promise<string[]> {
  const [, script = ''] = /^```sh\n(#!.*?)^```/ms.exec(readFileSync('docs/inspect.md', 'utf8')) ?? [];
  const bodies: string[] = [];
  const chat = await serve(async (request, response) => {
    bodies.push(await text(request));
    response.end('ok');
  });
  const folder = newFolder();
  writeFileSync(join(folder, 'delivery-watch'), `#!/bin/sh\nexec '${process.execPath}' '${mainFile()}' "$@"\n`, {
    mode: 0o755,
  });
  const PATH = [folder, process.env.PATH].join(delimiter);
  const command = script.replace('/etc/delivery-watch/config.yaml', config);
  await run('sh', ['-c', command], { ...env, PATH, CHAT_WEBHOOK_URL: chat.url });
  return bodies;
}

const NO_AGENT = /^No running agent responded/;
const NO_STORE =
  /^No running agent responded through the store \/.+, which does not exist: this command reads the accounts once/;

describe.skipIf(!requireProgram('jq') || !requireProgram('curl'))('the chat script in docs/inspect.md', () => {
  it('the chat script posts the report only if something is wrong, and the error if the configuration is missing', async () => {
    const scene = await setUp();
    const env = { DELIVERY_TOKEN: CANARY };
    expect(await runChatScript(scene.agent.configFile, env)).toEqual([]);
    addDeadLetter(scene);
    expect((await runChatScript(scene.agent.configFile, env)).map(body => JSON.parse(body).text)).toEqual([
      expect.stringContaining('\nproduction: problems\n'),
    ]);
    expect((await runChatScript('/nowhere/config.yaml', env)).map(body => JSON.parse(body).text)).toEqual([
      expect.stringContaining('/nowhere/config.yaml'),
    ]);
  });
});

describe('report', () => {
  it('without an agent, report collects once, and exits with 0 if healthy, 1 on problems and 3 if unknown', async () => {
    const scene = await setUp();
    const healthy = await scene.report();
    expect(healthy).toMatchObject({ code: 0, stderr: expect.stringMatching(NO_STORE) });
    expect(healthy.stdout).toMatch(/^healthy \(1 account: 1 healthy\)\n/);
    addDeadLetter(scene);
    const bad = await scene.report('--format', 'json');
    expect(bad.code).toBe(1);
    expect(JSON.parse(bad.stdout)).toMatchObject({
      verdict: 'problems',
      accounts: [{ deadLetters: 1, problems: [{ kind: 'dlq_old' }] }],
    });
    scene.emulator.faults.add({ kind: 'status', status: 401 });
    const unknown = await scene.report('--format', 'markdown');
    expect(unknown.code).toBe(3);
    expect(unknown.stdout).toMatch(/^## unknown \(1 account: 1 unknown, 0 healthy\)\n/);
    expect(unknown.stdout).not.toContain('retried in');
  });

  it('report prints the report of a running agent, with the verdict unknown once data is stale', async () => {
    const hung = await serve(() => undefined);
    const scene = await setUp([{ ...unlimited('hung', hung.url), upstream: { timeout: '1s' } }], {
      collect: {
        flowControl: { every: '1s' },
        dlq: { every: '1s', rescanEvery: '2s' },
        events: { every: '1s' },
      },
      staleness: { markAfter: 2 },
    });
    await scene.agent.start();
    const production = async () => {
      const { code, stdout, stderr } = await scene.report('--account', 'production', '--format', 'json');
      const report = JSON.parse(stdout);
      expect(stderr).toBe('');
      expect(report.accounts).toHaveLength(1);
      return { code, ...report.accounts[0] };
    };
    await eventually(async () => expect(await production()).toMatchObject({ code: 0, verdict: 'healthy' }), 20_000);
    const all = await scene.report();
    expect([all.code, all.stdout]).toEqual([3, expect.stringContaining('\nhung: unknown\n')]);
    scene.emulator.faults.add({ kind: 'status', status: 503 });
    await eventually(async () => {
      const found = await production();
      expect(found).toMatchObject({ code: 3, verdict: 'unknown' });
      expect(found.unknown).toContainEqual(
        expect.objectContaining({ collector: 'dlq', data: 'stale', failure: expect.stringContaining('503') }),
      );
    }, 30_000);
  });

  it.each([
    {},
    { verdict: 'fine', agent: { verdict: 'fine', problems: [] }, accounts: [{ account: 'a', verdict: 'fine' }] },
  ])('report collects once if the stored address responds with %j instead of a report', async body => {
    const emulator = await emulateEmpty({ token: CANARY });
    const other = await serve((_request, response) => json(response, body));
    const path = join(newFolder(), 'store.db');
    const store = await openStore({ kind: 'sqlite', path } as never);
    await createStoredKey(store);
    await writeAgentUrl(store, other.url);
    await store.close();
    const file = join(newFolder(), 'config.yaml');
    writeFileSync(file, JSON.stringify({ store: { path }, accounts: [unlimited('a', emulator.url)] }));
    const { code, stdout, stderr } = await runCli(['report', '--config', file], { DELIVERY_TOKEN: CANARY });
    expect(other.requests).toEqual(['GET /api/v1/report']);
    expect([code, stderr]).toEqual([0, expect.stringMatching(NO_AGENT)]);
    expect(stdout).toMatch(/^healthy \(1 account: 1 healthy\)\n/);
  });

  it('report rejects an unknown account or format as a usage error', async () => {
    const { report } = await setUp();
    expect(await report('--account', 'nobody')).toMatchObject({ code: 2, stdout: '' });
    expect(await report('--format', 'html')).toMatchObject({ code: 2, stdout: '' });
  });
});
