import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startAgent } from '../support/agent.ts';
import { startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { emulate } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { bothVersions, findNewer } from '../support/newer-packages.ts';
import { startPrometheus } from '../support/prometheus.ts';

/** State that the emulator's control API reports independently of the lists that the agent reads. */
interface EmulatorTruth {
  readonly dlq: { readonly total: number; readonly byResponseStatus: Readonly<Record<string, number>> };
  readonly waitlists: Readonly<Record<string, number>>;
}

async function startDemo(...args: string[]) {
  const demo = startCli(['demo', '--listen', '127.0.0.1:0', ...args]);
  afterThisTest(async () => {
    demo.kill('SIGTERM');
    await demo.ended;
  });
  const [, page = ''] = await demo.says(/status page\s+(\S+)\//);
  const [, emulator = ''] = await demo.says(/emulator\s+(\S+)\//);
  await eventually(async () =>
    expect(await (await fetch(`${page}/metrics`)).text()).toContain('delivery_up{account="demo"} 1'),
  );
  return { demo, page, emulator };
}

const promtools = bothVersions('promtool');
describe.skipIf(promtools.length === 0)('metrics of the demo', () => {
  it('promtool accepts the metrics of the demo on every path', async () => {
    const { page } = await startDemo();
    for (const path of ['/metrics', '/probe?account=demo', '/metrics/agent']) {
      const input = await (await fetch(page + path)).text();
      expect(input, path).toContain('# HELP');
      for (const promtool of promtools)
        expect(execFileSync(promtool, ['check', 'metrics'], { input, encoding: 'utf8', stdio: 'pipe' }), path).toBe('');
    }
  });
});

describe.each(bothVersions('prometheus'))('scrapes and service discovery of %s', program => {
  it('a real Prometheus with native histograms enabled scrapes numbers that match the emulator, and still gets classic histograms', async () => {
    const { page, emulator } = await startDemo();
    const prometheus = await startPrometheus({
      program,
      flags: ['--enable-feature=native-histograms'],
      scrapeConfigs: [{ job_name: 'demo', static_configs: [{ targets: [new URL(page).host] }] }],
    });
    afterThisTest(() => prometheus.stop());
    // Both sides change in real time, so the comparison is retried until both are read at the same moment.
    await eventually(async () => {
      const before = (await (await fetch(`${emulator}/_emulator/state`)).json()) as EmulatorTruth;
      const [all] = await prometheus.query('delivery_dlq_messages');
      const by500 = await prometheus.query('delivery_dlq_filter_messages{filter="status-500"}');
      const keys = await prometheus.query('delivery_flow_control_waitlist_size');
      expect(all?.value).toBe(before.dlq.total);
      expect(by500[0]?.value).toBe(before.dlq.byResponseStatus['500']);
      expect(Object.fromEntries(keys.map(({ metric, value }) => [metric.flow_control_key, value]))).toEqual(
        before.waitlists,
      );
    });
    expect(await prometheus.query('delivery_watch_api_request_duration_seconds_bucket')).not.toEqual([]);
  });

  it('a real Prometheus discovers accounts and stores exactly the service’s numbers, including hostile names', async () => {
    // The clock is frozen, so that the expected numbers do not change during the comparison.
    const emulator = await emulate({ speed: 0, seed: 11 });
    emulator.state.setWaitlist('a "quoted"\nkey\\ with\u0000 \u{1f600} all', 42);
    const tokenFile = join(newFolder(), 'token');
    writeFileSync(tokenFile, `${emulator.token}\n`);
    const { url: page } = await startAgent(
      {
        store: { kind: 'memory' },
        accounts: [
          {
            name: 'real',
            baseUrl: emulator.url,
            token: { env: 'DELIVERY_TOKEN' },
            budget: { requestsPerSecond: 500, requestsPerDay: 10_000_000 },
          },
          {
            name: 'from-file',
            baseUrl: emulator.url,
            token: { file: tokenFile },
            budget: { requestsPerSecond: 500, requestsPerDay: 10_000_000 },
          },
        ],
        collect: {
          flowControl: { every: '300ms' },
          dlq: {
            every: '1s',
            filters: [
              { name: 'status-500', match: { responseStatus: 500 } },
              { name: 'emails', match: { queueName: 'emails' } },
            ],
          },
          events: { every: '500ms', window: '30m' },
        },
      },
      emulator.token,
    );
    const prometheus = await startPrometheus({
      program,
      scrapeConfigs: [
        { job_name: 'accounts', http_sd_configs: [{ url: `${page}/api/v1/sd`, refresh_interval: '1s' }] },
        { job_name: 'agent', metrics_path: '/metrics/agent', static_configs: [{ targets: [new URL(page).host] }] },
      ],
    });
    afterThisTest(() => prometheus.stop());
    await eventually(async () => expect(await prometheus.query('delivery_up == 1')).toHaveLength(2));

    const values = async (promql: string, label: string) =>
      Object.fromEntries((await prometheus.query(promql)).map(({ metric, value }) => [metric[label], value]));
    // On a busy machine, data read every 300 ms may be withdrawn briefly.
    await eventually(async () => {
      for (const account of ['real', 'from-file']) {
        expect(await values(`delivery_flow_control_waitlist_size{account="${account}"}`, 'flow_control_key')).toEqual(
          Object.fromEntries(emulator.state.waitlists()),
        );
        const [total] = await prometheus.query(`delivery_dlq_messages{account="${account}"}`);
        expect(total?.value).toBe(emulator.state.countDlq());
        expect(await values(`delivery_dlq_filter_messages{account="${account}"}`, 'filter')).toEqual({
          'status-500': emulator.state.countDlq(({ responseStatus }) => responseStatus === 500),
          emails: emulator.state.countDlq(({ queueName }) => queueName === 'emails'),
        });
        const [oldest] = await prometheus.query(`delivery_dlq_oldest_entered_timestamp_seconds{account="${account}"}`);
        expect(oldest?.value).toBeCloseTo(
          Math.min(...emulator.state.dlqRows().map(({ dlqId }) => Number.parseInt(dlqId, 10))) / 1000,
          3,
        );
      }
    });
    await eventually(async () => {
      const byState = await values('delivery_events_recent{account="real"}', 'state');
      // The window ends at the service's time, which is frozen. The agent estimates it from `Date`, which has whole seconds, and
      // assumes that it advances until two responses show otherwise.
      const estimates = Array.from({ length: 500 }, (_, step) => emulator.clock.now() + 20 * step);
      const counts = estimates.map(to => emulator.state.countEvents({ from: to - 1_800_000, to }));
      expect(counts.map(each => ({ ...each, unknown: 0 }))).toContainEqual(byState);
      expect(byState.delivered).toBeGreaterThan(100);
    });
    const instances = ['delivery-watch/from-file', 'delivery-watch/real', new URL(page).host];
    await eventually(async () =>
      expect(await values('up', 'instance')).toEqual(Object.fromEntries(instances.map(instance => [instance, 1]))),
    );
    // The agent reports at most as many requests as the service received.
    const emulatorCalls = Object.values(emulator.state.calls()).reduce((sum, calls) => sum + calls, 0);
    const [sent] = await prometheus.query('sum(delivery_watch_api_requests_total)');
    expect(sent?.value).toBeGreaterThan(10);
    expect(sent?.value).toBeLessThanOrEqual(emulatorCalls);
  });

  it('a real Prometheus distinguishes two agents that both serve the same account', async () => {
    const [one, two] = [await startDemo(), await startDemo()];
    const prometheus = await startPrometheus({
      program,
      scrapeConfigs: [
        {
          job_name: 'accounts',
          http_sd_configs: [one, two].map(({ page }) => ({ url: `${page}/api/v1/sd`, refresh_interval: '1s' })),
        },
      ],
    });
    afterThisTest(() => prometheus.stop());
    const replicas = [one, two].map(({ page }) => new URL(page).host).sort();
    for (const metric of ['up', 'delivery_up', 'delivery_dlq_messages']) {
      await eventually(async () => {
        const found = await prometheus.query(metric);
        expect(found.map(({ metric: { instance, replica } }) => [instance, replica]).sort()).toEqual(
          replicas.map(replica => ['delivery-watch/demo', replica]),
        );
      });
    }
  });
});

const newer = findNewer('prometheus');
it.skipIf(newer === undefined)(
  'a Prometheus 3 that converts classic histograms stores them only if it is configured to keep them',
  async () => {
    const { page } = await startDemo();
    const job = (name: string, settings: object) => ({
      job_name: name,
      static_configs: [{ targets: [new URL(page).host] }],
      ...settings,
    });
    const converts = { convert_classic_histograms_to_nhcb: true };
    const prometheus = await startPrometheus({
      ...(newer && { program: newer }),
      flags: ['--enable-feature=native-histograms'],
      scrapeConfigs: [job('converted', converts), job('kept', { ...converts, always_scrape_classic_histograms: true })],
    });
    afterThisTest(() => prometheus.stop());
    const jobsWith = async (selector: string) =>
      (await prometheus.query(`count by (job) (${selector})`)).map(({ metric }) => metric.job).sort();
    const histogram = 'delivery_watch_api_request_duration_seconds';
    await eventually(async () => {
      expect(await jobsWith(`histogram_count(${histogram})`)).toEqual(['converted', 'kept']);
      expect(await jobsWith(`${histogram}_bucket`)).toEqual(['kept']);
    });
  },
);
