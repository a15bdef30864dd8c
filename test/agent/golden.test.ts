import { expect, it } from 'vitest';
import { type Agent, startAgent } from '../../src/agent/agent.ts';
import { Config } from '../../src/config/schema.ts';
import { startEmulator } from '../../src/emulator/server.ts';
import { version } from '../../src/kit/version.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { parseExposition } from '../support/parse-exposition.ts';

const FORMATS = [
  ['text', '*/*', 'metrics.prom'],
  ['openmetrics', 'application/openmetrics-text', 'metrics.openmetrics'],
] as const;

/** Starts the emulator and the agent at a fixed time and waits for the first result of each round. */
async function startBoth(more: object[] = []): Promise<Agent> {
  const clock = createManualClock(Date.UTC(2026, 0, 1, 12));
  // Without generated history and dead letters, changes of the emulated workload do not affect the golden files.
  const emulator = await startEmulator({ clock, token: 'golden-token', history: 0, dlqEntries: 0 });
  afterThisTest(() => emulator.close());
  for (const [index, responseStatus] of [500, 404, 500].entries()) {
    const createdAt = clock.now() - (index + 1) * 60_000;
    emulator.state.addDlqEntry({ enteredAt: createdAt + 5000, createdAt, responseStatus });
  }
  for (const [index, state] of (['created', 'active', 'error', 'retry', 'active', 'delivered'] as const).entries()) {
    emulator.state.addEvent({ state, time: clock.now() - 30_000 + index * 1000 });
  }
  emulator.state.setWaitlist('mail/send', 12);
  emulator.state.setWaitlist('hostile "key"\\\n\ud800é', 3);
  const config = Config.parse({
    server: { listen: '127.0.0.1:0' },
    log: { level: 'silent' },
    store: { kind: 'memory' },
    accounts: [
      { name: 'acme', baseUrl: emulator.url, token: 'golden-token', budget: { requestsPerSecond: 1000, burst: 1000 } },
      ...more.map(account => ({ baseUrl: emulator.url, ...account })),
    ],
    collect: { dlq: { filters: [{ name: 'status-500', match: { responseStatus: 500 } }] } },
  });
  const agent = await startAgent(
    { file: 'test', config, hash: '0123456789abcdef', warnings: [] },
    { env: {}, clock, random: () => 0 },
  );
  afterThisTest(() => agent.close());
  await clock.advance(0);
  await eventually(() => {
    const rounds = agent.status().flatMap(({ collectors }) => collectors.flatMap(({ rounds }) => rounds));
    expect(rounds.every(({ success, idle }) => success !== undefined || idle !== undefined)).toBe(true);
  });
  return agent;
}

/** Removes runtime metrics and response sizes, and replaces version numbers, so that the text is the same in every run. */
function withoutRuntime(text: string): string {
  const lines = text
    .split('\n')
    .filter(line => !/^(# \w+ )?(process|nodejs)_|^delivery_watch_api_response_bytes_total{.* [1-9]/.test(line));
  return lines.join('\n').replaceAll(process.version, 'vX').replaceAll(`version="${version}"`, 'version="X"');
}

it.each(FORMATS)('the exposition in the %s format matches the golden file', async (format, accept, file) => {
  const agent = await startBoth();
  const text = await (await fetch(`${agent.url}/metrics`, { headers: { accept } })).text();
  parseExposition(text, format);
  await expect(withoutRuntime(text)).toMatchFileSnapshot(`golden/${file}`);
});

it('/probe and /metrics/agent together expose all families of /metrics', async () => {
  const agent = await startBoth([{ name: 'refused', token: 'another-token' }]);
  const families = async (path: string) => {
    const text = await (await fetch(agent.url + path)).text();
    return new Map(parseExposition(text, 'text').map(({ name, samples }) => [name, samples]));
  };
  const [all, probe, own] = [
    await families('/metrics'),
    await families('/probe?account=acme'),
    await families('/metrics/agent'),
  ];
  expect([...probe.values()].flat().every(({ labels }) => labels.account === 'acme')).toBe(true);
  expect([...own.values()].flat().some(({ labels }) => 'account' in labels)).toBe(false);
  // Some runtime families appear only after their first event.
  const ours = (names: Iterable<string>) => new Set([...names].filter(name => name.startsWith('delivery_')));
  expect(ours([...probe.keys(), ...own.keys()])).toEqual(ours(all.keys()));
  expect(all.get('delivery_up')?.map(({ labels, value }) => [labels.account, value])).toEqual([
    ['acme', 1],
    ['refused', 0],
  ]);
  expect(await families('/probe?account=refused').then(all => all.has('delivery_dlq_messages'))).toBe(false);
});
