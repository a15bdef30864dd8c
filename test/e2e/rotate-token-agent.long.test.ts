import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { scrape } from '../support/agent.ts';
import { startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { type Rotation, startRotation } from './rotation.ts';

/** Starts a real agent with the configuration of `rotation`. */
async function startAgent({ configFile }: Rotation) {
  const agent = startCli(['serve', '--config', configFile], { OTHER_TOKEN: 'other-token' });
  afterThisTest(async () => {
    agent.kill('SIGKILL');
    await agent.ended;
  });
  const url = await agent.listensAt();
  const samples = async (name: string) => (await scrape(url)).samples(name);
  const sum = async (name: string, labels?: Readonly<Record<string, string>>) => (await scrape(url)).sum(name, labels);
  return { agent, samples, sum };
}

const FAST = {
  server: { listen: '127.0.0.1:0' },
  collect: { flowControl: { every: '20ms' }, dlq: { every: '20ms' }, events: { every: '20ms' } },
};
const BUDGET = { requestsPerSecond: 1000, burst: 1000, requestsPerDay: 100_000_000 };

it('a running agent switches to the new token, even if the response to the reset is slow', async () => {
  const rotation = await startRotation({ config: FAST, account: { budget: BUDGET } });
  const { agent, sum } = await startAgent(rotation);
  await eventually(async () => expect(await sum('delivery_up')).toBe(1));
  // The service resets the token immediately but sends the response byte by byte. So for a second, no client has the valid
  // token.
  rotation.fault({ kind: 'drip', dripMs: 1 });
  expect((await rotation.run()).code).toBe(0);
  const answered = await sum('delivery_watch_api_requests_total', { outcome: 'ok' });
  await eventually(async () =>
    expect(await sum('delivery_watch_api_requests_total', { outcome: 'ok' })).toBeGreaterThan((answered ?? 0) + 50),
  );
  expect(await sum('delivery_watch_api_requests_total', { outcome: 'unauthorized' })).toBeGreaterThan(0);
  await eventually(async () => expect(await sum('delivery_up')).toBe(1));
  expect(await sum('delivery_token_rejected')).toBe(0);
  agent.kill('SIGTERM');
  expect(await agent.ended).toBe(0);
  expect((await rotation.run(['--check'])).stdout).toMatch(/age .*, when it was reset\n/);
});

it('limits, plan and retention from the account record reach a running agent and stay in its store', async () => {
  const other = { name: 'other', baseUrl: 'http://127.0.0.1:1', token: { env: 'OTHER_TOKEN' } };
  const rotation = await startRotation({ account: { budget: BUDGET, labels: { team: 'payments' } } });
  const config = JSON.parse(readFileSync(rotation.configFile, 'utf8'));
  rotation.configure({
    config: { ...FAST, accounts: [...config.accounts, other] },
  });
  const first = await startAgent(rotation);
  await eventually(async () => expect(await first.sum('delivery_up', { account: 'acme' })).toBe(1));
  const ofAccount = (name: string, { samples }: Awaited<ReturnType<typeof startAgent>>) =>
    samples(name).then(all => all.map(({ labels, value }) => [labels, value]));
  expect(await ofAccount('delivery_account_info', first)).toContainEqual([{ account: 'acme', team: 'payments' }, 1]);

  expect((await rotation.run(['--yes'], { OTHER_TOKEN: 'other-token' })).code).toBe(0);
  const assertShown = async (agent: Awaited<ReturnType<typeof startAgent>>) => {
    expect(await ofAccount('delivery_account_limit', agent)).toContainEqual([
      { account: 'acme', limit: 'message_size_bytes' },
      1_048_576,
    ]);
    expect(await ofAccount('delivery_account_info', agent)).toEqual([
      [{ account: 'acme', plan: 'paid', state: 'active', team: 'payments' }, 1],
      [{ account: 'other' }, 1],
    ]);
    expect(await ofAccount('delivery_dlq_retention_seconds', agent)).toEqual([[{ account: 'acme' }, 259_200]]);
  };
  await eventually(() => assertShown(first));
  // An account without a token reset has no limits, and its rounds succeed.
  expect(await first.sum('delivery_collector_success', { account: 'other', collector: 'account' })).toBe(1);
  first.agent.kill('SIGTERM');
  await first.agent.ended;

  const second = await startAgent(rotation);
  await eventually(() => assertShown(second));
});
