import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { ShownAlert } from '../../src/rules/alerting.ts';
import { createAgent } from '../support/agent.ts';
import { runCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { requireProgram, startPrometheus } from '../support/prometheus.ts';

const SECOND = 1000;
const INTERVAL = 2 * SECOND;

const dlq = { metric: 'delivery_dlq_messages' };
const RULES = [
  { name: 'Growing', when: { growth: { ...dlq, over: '10s', atLeast: 5 } }, for: '2s' },
  {
    name: 'Many',
    when: { above: { ...dlq, value: 8 } },
    for: '4s',
    keepFiringFor: '4s',
    labels: { severity: 'warning' },
  },
  { name: 'Few', when: { below: { ...dlq, value: 3 } } },
  {
    name: 'Old',
    when: { age: { metric: 'delivery_dlq_oldest_entered_timestamp_seconds', above: '1h' } },
  },
  {
    name: 'Failing',
    when: {
      ratio: {
        part: { metric: 'delivery_events_total', labels: { state: 'failed' } },
        whole: { metric: 'delivery_events_total', labels: { state: ['failed', 'delivered'] } },
        over: '14s',
        above: 0.2,
        atLeast: 4,
      },
    },
  },
  { name: 'Waiting', when: { above: { metric: 'delivery_flow_control_waitlist_size', value: 10 } } },
  { name: 'Blind', when: { stale: { collector: 'flow_control', round: 'list' } } },
];

/** Names of these rules, to tell them apart from the shipped alerts, which `rules print` also prints. */
const CONFIGURED: ReadonlySet<string> = new Set(RULES.map(({ name }) => name));

/** Periods in which each alert was firing (ms), by name and labels. `to` is undefined while the alert is firing. */
type Seen = Map<string, { from: number; to: number | undefined }[]>;

function recordFiring(seen: Seen, now: number, firing: readonly string[]): void {
  for (const name of firing) {
    const spans = seen.get(name) ?? [];
    seen.set(name, spans);
    const last = spans.at(-1);
    if (!last || last.to !== undefined) spans.push({ from: now, to: undefined });
  }
  for (const [name, spans] of seen) {
    const last = spans.at(-1);
    if (last && last.to === undefined && !firing.includes(name)) last.to = now;
  }
}

function nameOf({ alertname = '', job: _job, ...labels }: Readonly<Record<string, string>>): string {
  const others = Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1));
  return `${alertname} ${others.map(pair => pair.join('=')).join(' ')}`;
}

describe.skipIf(!requireProgram('prometheus'))('parity of alerts', () => {
  it('the agent and a Prometheus with the printed rules fire and resolve the same alerts within two intervals of each other', async () => {
    const emulator = await emulateEmpty();
    const { state } = emulator;
    const agent = createAgent(
      {
        store: { kind: 'memory' },
        accounts: [
          {
            name: 'a',
            baseUrl: emulator.url,
            token: { env: 'DELIVERY_TOKEN' },
            budget: { requestsPerSecond: 500, burst: 100, requestsPerDay: 10_000_000 },
          },
        ],
        collect: {
          flowControl: { every: '300ms' },
          dlq: { every: '300ms', rescanEvery: '1s' },
          events: { every: '300ms' },
        },
        staleness: { markAfter: 5, withdrawAfter: 10 },
        alerts: { enabled: true, builtin: null, evaluateEvery: `${INTERVAL}ms`, rules: RULES },
      },
      { DELIVERY_TOKEN: emulator.token },
    );
    const printed = await runCli(['rules', 'print', '--config', agent.configFile]);
    const ruleFile = join(agent.folder, 'rules.yaml');
    expect(printed.code).toBe(0);
    writeFileSync(ruleFile, printed.stdout);
    const page = await agent.start();
    const prometheus = await startPrometheus({
      config: { rule_files: [ruleFile], global: { scrape_interval: '500ms', evaluation_interval: '1s' } },
      scrapeConfigs: [{ job_name: 'x', scrape_interval: '500ms', static_configs: [{ targets: [new URL(page).host] }] }],
    });
    afterThisTest(() => prometheus.stop());

    const [ours, theirs]: [Seen, Seen] = [new Map(), new Map()];
    const begin = performance.now();
    /** Longest time between two polls (ms). */
    let [slowest, lastPoll] = [0, 0];
    async function poll(): Promise<void> {
      const [alerts, answer] = await Promise.all([
        fetch(`${page}/api/v1/alerts`).then(answer => answer.json() as Promise<ShownAlert[]>),
        prometheus.get('/api/v1/alerts') as Promise<{
          alerts: { state: string; labels: Record<string, string> }[];
        }>,
      ]);
      const now = performance.now() - begin;
      if (lastPoll > 0) slowest = Math.max(slowest, now - lastPoll);
      lastPoll = now;
      const firing = (all: readonly { state: string; labels: Readonly<Record<string, string>> }[]) =>
        all
          .filter(({ state, labels }) => state === 'firing' && CONFIGURED.has(labels.alertname ?? ''))
          .map(({ labels }) => nameOf(labels));
      recordFiring(ours, now, firing(alerts));
      recordFiring(theirs, now, firing(answer.alerts));
    }
    /** Polls the agent and Prometheus for `seconds` seconds. */
    async function watch(seconds: number): Promise<void> {
      const until = performance.now() + seconds * SECOND;
      while (performance.now() < until) {
        await poll();
        await sleep(100);
      }
    }

    state.setWaitlist('steady', 3);
    // After 18 s, windows are complete, and alerts that fire only at startup have resolved.
    await watch(18);
    const old = state.addDlqEntry({ enteredAt: Date.now() - 2 * 3_600_000 });
    state.setWaitlist('pile', 50);
    const entries: string[] = [];
    for (let second = 0; second < 8; second += 1) {
      entries.push(state.addDlqEntry(), state.addDlqEntry());
      for (const end of ['failed', 'delivered', 'failed'] as const) state.addEvent({ state: end });
      await watch(1);
    }
    await watch(6);
    state.setWaitlist('pile', 5);
    await watch(6);
    // One collector fails.
    const repair = emulator.faults.add({ endpoint: 'GET /v2/flowControl', kind: 'status', status: 500 });
    await watch(12);
    repair();
    for (const id of [old, ...entries]) state.removeDlqEntry(id);
    await watch(20);

    expect([...ours.keys()].sort()).toEqual([...theirs.keys()].sort());
    expect([...ours.keys()].map(name => name.split(' ')[0]).sort()).toEqual(RULES.map(({ name }) => name).sort());
    for (const [name, spans] of ours) {
      const others = theirs.get(name) ?? [];
      expect(spans.length, `${name}: ${JSON.stringify([spans, others])}`).toBe(others.length);
      for (const [index, { from, to }] of spans.entries()) {
        const other = others[index];
        // A change may have happened at any time between two polls.
        const tolerance = 2 * INTERVAL + slowest;
        // Prometheus starts a little later than the agent.
        if (index > 0 || from > 3 * INTERVAL)
          expect(Math.abs(from - (other?.from ?? 0)), `${name} begins`).toBeLessThan(tolerance);
        expect(to === undefined, `${name} ends`).toBe(other?.to === undefined);
        if (to !== undefined) expect(Math.abs(to - (other?.to ?? 0)), `${name} ends`).toBeLessThan(tolerance);
      }
    }
  });
});
