import { execFileSync } from 'node:child_process';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { CONTENT_TYPES, createExposition } from '../../src/metrics/exposition.ts';
import { counter, formatLe, gauge, histogram, info } from '../../src/metrics/family.ts';
import { createLeaseMeter } from '../../src/metrics/leader.ts';
import type { Format } from '../../src/model/exposition.ts';
import { type Prometheus, requireProgram, startPrometheus } from '../support/prometheus.ts';
import { createFakeSource } from './sources.ts';

/**
 * Label values that contain each ASCII character, in the middle and at the end, and characters at the limits of Unicode ranges.
 */
const hostile = [
  ...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)),
  ...[
    '\u0080',
    '\u0085',
    '\u009f',
    '\u00ad',
    '\u200b',
    '\u2028',
    '\ufeff',
    '\ufffe',
    '\uffff',
    '\ue000',
    '😀',
    '\u{10ffff}',
  ],
  ...['\\n', '\\"', '"} 1', '\n# EOF\n', '\r\n', 'x'.repeat(5000)],
].flatMap(text => [`<${text}>`, `end${text}`]);

const lone = '<\ufffd>';
const keys = gauge('delivery_keys', 'Says "yes" \\ and\nmore.', ['key']);
const seen = counter('delivery_seen_total', 'Seen.');
const wait = histogram('delivery_wait_seconds', 'Waited.');
const plan = info('delivery_account_info', 'The account.', ['plan']);

const bounds = [0.25, 300, 1_000_000, Infinity];
const source = createFakeSource(
  [keys, seen, wait, plan],
  {
    // The value `lone` occurs twice, but must be exposed once: Prometheus rejects a scrape with duplicate series.
    delivery_keys: [...hostile, lone, lone].map((key, index) => ({ labels: { key }, value: index })),
    delivery_seen_total: [{ labels: {}, value: 1e21 }],
    delivery_wait_seconds: [
      ...bounds.map(le => ({ labels: { le: formatLe(le) }, suffix: '_bucket' as const, value: 3 })),
      { labels: {}, suffix: '_sum', value: 0.5 },
      { labels: {}, suffix: '_count', value: 3 },
    ],
    delivery_account_info: [{ labels: { plan: 'pro' }, value: 1 }],
  },
  'pro"d',
);
const extremes = createFakeSource([gauge('delivery_extremes', 'Numbers.', ['of'])], {
  delivery_extremes: [NaN, Infinity, -Infinity, 5e-324, 1.7976931348623157e308, -1e-7].map(value => ({
    labels: { of: String(value) },
    value,
  })),
});
// Lease metrics exist only with a shared store, and no other test checks them with promtool.
const leases = createLeaseMeter().sourceOf('delivery_watch', () => false);
const exposition = createExposition([source, extremes, leases]);

test.skipIf(!requireProgram('promtool'))('promtool reports no problems in the exposition', async () => {
  const input = await exposition.render({ scope: 'everything', format: 'text', gzip: false });
  expect(execFileSync('promtool', ['check', 'metrics'], { input, stdio: ['pipe', 'pipe', 'pipe'] }).toString()).toBe(
    '',
  );
});

describe.skipIf(!requireProgram('prometheus'))('scrapes by Prometheus', () => {
  const encodings: (string | undefined)[] = [];
  const server = createServer(async (request, response) => {
    const [, format = '', encoding] = (request.url ?? '').split('/');
    const gzip = encoding === 'gzip';
    encodings.push(request.headers['accept-encoding']);
    const body = await exposition.render({ scope: 'everything', format: format as Format, gzip });
    response.writeHead(200, {
      'Content-Type': CONTENT_TYPES[format as Format],
      ...(gzip ? { 'Content-Encoding': 'gzip' } : {}),
    });
    response.end(body);
  });
  let prometheus: Prometheus;
  const jobs = ['text/plain', 'text/gzip', 'openmetrics/plain', 'openmetrics/gzip'];

  beforeAll(async () => {
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
    const target = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    prometheus = await startPrometheus({
      scrapeConfigs: jobs.map(job => ({
        job_name: job,
        metrics_path: `/${job}`,
        static_configs: [{ targets: [target] }],
      })),
    });
    await vi.waitFor(
      async () => {
        const { activeTargets } = (await prometheus.get('/api/v1/targets')) as { activeTargets: { health: string }[] };
        expect(activeTargets.filter(({ health }) => health === 'unknown')).toEqual([]);
        expect(activeTargets).toHaveLength(jobs.length);
      },
      { timeout: 15_000, interval: 100 },
    );
  });

  afterAll(async () => {
    await prometheus?.stop();
    server.closeAllConnections();
    await new Promise(resolve => server.close(resolve));
  });

  test('a real Prometheus scrapes both formats, plain and gzipped', async () => {
    const { activeTargets } = (await prometheus.get('/api/v1/targets')) as {
      activeTargets: { labels: { job: string }; health: string; lastError: string }[];
    };
    expect(activeTargets.map(({ labels, health, lastError }) => [labels.job, health, lastError]).sort()).toEqual(
      jobs.map(job => [job, 'up', '']).sort(),
    );
    expect(new Set(encodings)).toEqual(new Set(['gzip']));
  });

  test.each(jobs)('a real Prometheus stores every hostile label value of %s', async job => {
    const series = await prometheus.query(`delivery_keys{job="${job}"}`);
    const values = new Map(series.map(({ metric, value }) => [metric.key, value]));
    expect(values).toEqual(new Map([...hostile, '<\ufffd>'].map((key, index) => [key, index])));
    expect(new Set(series.map(({ metric }) => metric.account))).toEqual(new Set(['pro"d']));
  });

  test.each(jobs)('a real Prometheus stores every number and every name of %s', async job => {
    const read = async (selector: string, label: string) =>
      (await prometheus.query(selector.replace('$', `job="${job}"`))).map(({ metric, value }) => [
        metric[label],
        value,
      ]);
    const extremes = await read('delivery_extremes{$}', 'of');
    expect(extremes).toHaveLength(6);
    for (const [of, value] of extremes) expect(value).toBe(Number(of));
    expect((await read('delivery_wait_seconds_bucket{$}', 'le')).sort()).toEqual(
      bounds.map(le => [formatLe(le), 3]).sort(),
    );
    expect(await read('delivery_wait_seconds_sum{$}', 'account')).toEqual([['pro"d', 0.5]]);
    expect(await read('delivery_seen_total{$}', 'account')).toEqual([['pro"d', 1e21]]);
    expect(await read('delivery_account_info{$}', 'plan')).toEqual([['pro', 1]]);
  });

  test('a real Prometheus reads HELP, TYPE and UNIT', async () => {
    const metadata = (await prometheus.get('/api/v1/metadata')) as Record<
      string,
      { type: string; help: string; unit: string }[]
    >;
    const help = 'Says "yes" \\ and\nmore.';
    expect(metadata.delivery_keys).toEqual([{ type: 'gauge', help, unit: '' }]);
    const units = metadata.delivery_wait_seconds?.map(({ type, unit }) => `${type} ${unit}`).sort();
    expect(units).toEqual(['histogram ', 'histogram seconds']);
    expect(metadata.delivery_account?.map(({ type }) => type)).toEqual(['info']);
  });
});
