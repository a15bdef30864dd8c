import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { createAgent } from '../support/agent.ts';
import { runCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { json, serve } from '../support/http-service.ts';
import { requireProgram } from '../support/prometheus.ts';

const KEY = 'tenant-7';
const TEXT = `Key ${KEY} is paused: 12 messages waiting.`;
const LABELS = { account: 'acme', kind: 'paused_with_backlog', severity: 'warning', subject: KEY };

interface Sent {
  readonly status: string;
  readonly startsAt: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Starts a service with one key, a receiver and an agent that is not started yet. */
async function setUp() {
  const state = { isPaused: true };
  const service = await serve((_request, response) =>
    json(response, [{ flowControlKey: KEY, waitListSize: 12, isPaused: state.isPaused }]),
  );
  const sent: Sent[] = [];
  const hook = await serve((request, response) => {
    let body = '';
    request.on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      sent.push(...JSON.parse(body).alerts);
      json(response, {});
    });
  });
  const agent = createAgent(
    {
      accounts: [
        {
          name: 'acme',
          baseUrl: service.url,
          token: { env: 'DELIVERY_TOKEN' },
          collect: { flowControl: { every: '1s' }, dlq: { enabled: false }, events: { enabled: false } },
        },
      ],
      alerts: {
        enabled: true,
        evaluateEvery: '1s',
        notifiers: [{ name: 'hook', webhook: { url: hook.url, groupWait: '0s' } }],
      },
    },
    { DELIVERY_TOKEN: 'x' },
  );
  return { agent, state, sent };
}

type Agent = Awaited<ReturnType<typeof setUp>>['agent'];

/** Returns start and text of the paused key in the API, on the page and in the command `report`. */
async function shownBy(agent: Agent) {
  const { problems } = JSON.parse(await agent.get('/api/v1/accounts/acme'));
  const report = JSON.parse(await agent.get('/api/v1/report')).accounts[0].problems;
  const overview = JSON.parse(await agent.get('/api/v1/overview')).problems;
  const args = ['report', '--config', agent.configFile, '--format', 'json'];
  const command = JSON.parse((await runCli(args, { DELIVERY_TOKEN: 'x' })).stdout);
  expect(await agent.get('/accounts/acme')).toContain(TEXT);
  const all = [problems, report, overview, command.accounts[0].problems].map(
    ([first]: { kind: string; since: string; text: string }[]) => ({
      kind: first?.kind,
      since: first?.since,
      text: first?.text,
    }),
  );
  return [...new Set(all.map(each => JSON.stringify(each)))].map(each => JSON.parse(each));
}

it('a problem has the same start and text in the API, page, report and notification, and delivery_problem shows it, even after a kill', async () => {
  const { agent, state, sent } = await setUp();
  await agent.start();
  await eventually(() => expect(sent).toHaveLength(1));
  const [{ startsAt, annotations } = {} as Sent] = sent;
  expect(annotations.summary).toBe(TEXT);
  const shown = [{ kind: 'paused_with_backlog', since: new Date(startsAt).toISOString(), text: TEXT }];
  expect(await shownBy(agent)).toEqual(shown);
  expect(await agent.value('delivery_problem', LABELS)).toBe(1);
  if (requireProgram('promtool')) {
    const input = await agent.get('/metrics');
    expect(execFileSync('promtool', ['check', 'metrics'], { input, encoding: 'utf8', stdio: 'pipe' })).toBe('');
  }

  await agent.end('SIGKILL');
  await agent.start();
  // The stored state is exposed before the first evaluation.
  expect(await agent.value('delivery_problem', LABELS)).toBe(1);
  await eventually(async () => expect(await shownBy(agent)).toEqual(shown));
  expect(sent).toHaveLength(1);

  state.isPaused = false;
  await eventually(async () => expect(await agent.value('delivery_problem', LABELS)).toBe(0));
  await eventually(() => expect(sent.map(each => each.status)).toEqual(['firing', 'resolved']));
  expect(sent[1]).toMatchObject({ startsAt, annotations: { summary: TEXT } });
  // The end is stored, too.
  await agent.end('SIGKILL');
  await agent.start();
  expect(await agent.value('delivery_problem', LABELS)).toBe(0);
});

it('a problem keeps its state while alerts are disabled, and is sent when they are enabled', async () => {
  const { agent, sent } = await setUp();
  const enabled = readFileSync(agent.configFile, 'utf8');
  writeFileSync(agent.configFile, enabled.replace('"enabled":true', '"enabled":false'));
  await agent.start();
  await eventually(async () => expect(await agent.value('delivery_problem', LABELS)).toBe(1));
  const [before] = await shownBy(agent);
  expect(await agent.get('/api/v1/overview')).toContain('"alertsFiring":0');
  await agent.end('SIGKILL');
  writeFileSync(agent.configFile, enabled);
  await agent.start();
  await eventually(() => expect(sent).toHaveLength(1));
  expect(new Date(sent[0]?.startsAt ?? '').toISOString()).toBe(before.since);
  expect(await shownBy(agent)).toEqual([before]);
});
