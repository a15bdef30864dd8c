import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { CONTENT_TYPES, createExposition } from '../../src/metrics/exposition.ts';
import { counter, formatLe, gauge, histogram, info } from '../../src/metrics/family.ts';
import type { Format, Scope } from '../../src/model/exposition.ts';
import { parseExposition } from '../support/parse-exposition.ts';
import { createFakeSource } from './sources.ts';

const waiting = gauge('delivery_waiting', 'Messages waiting.\nRead in "rounds", not by C:\\scrape.', ['key']);
const seen = counter('delivery_seen_total', 'Events seen.');
const wait = histogram('delivery_wait_seconds', 'Time waited.', ['queue']);
const account = info('delivery_account_info', 'The account.', ['plan']);
const cpu = counter('process_cpu_seconds_total', 'CPU time used.');
const gone = gauge('delivery_gone', 'Never has samples.');

const bucket = (le: number, value: number) =>
  ({ labels: { queue: 'q', le: formatLe(le) }, suffix: '_bucket', value }) as const;

function createSources() {
  const first = createFakeSource(
    [gone, waiting, account],
    {
      delivery_waiting: [
        { labels: { key: 'a "b" \\ c\nd' }, value: 1.5 },
        { labels: { key: '\ufffd' }, value: 2 },
        { labels: { key: '\ufffd' }, value: 3 },
      ],
      delivery_account_info: [{ labels: { plan: 'pro' }, value: 1 }],
    },
    'one',
  );
  const second = createFakeSource(
    [waiting, seen, wait],
    {
      delivery_waiting: [{ labels: { key: '' }, value: 1e21 }],
      delivery_seen_total: [{ labels: {}, value: 7 }],
      delivery_wait_seconds: [
        bucket(0.25, 1),
        bucket(300, 2),
        bucket(Infinity, 2),
        { labels: { queue: 'q' }, suffix: '_sum', value: 12.5 },
        { labels: { queue: 'q' }, suffix: '_count', value: 2 },
      ],
    },
    'two',
  );
  const agent = createFakeSource([cpu], { process_cpu_seconds_total: [{ labels: {}, value: 0.5 }] });
  return { first, second, agent, all: [first, second, agent] };
}

async function text(scope: Scope, format: Format, sources = createSources().all): Promise<string> {
  return (await createExposition(sources).render({ scope, format, gzip: false })).toString();
}

describe('exposition', () => {
  test('the exposition renders all sources in text format 0.0.4', async () => {
    expect(CONTENT_TYPES.text).toBe('text/plain; version=0.0.4; charset=utf-8');
    await expect(await text('everything', 'text')).toMatchFileSnapshot('exposition.prom');
  });

  test('the exposition renders all sources in OpenMetrics 1.0.0', async () => {
    expect(CONTENT_TYPES.openmetrics).toBe(
      'application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores',
    );
    await expect(await text('everything', 'openmetrics')).toMatchFileSnapshot('exposition.openmetrics');
  });

  test('the exposition contains the same samples in both formats, as read by a strict parser', async () => {
    const of = async (format: 'text' | 'openmetrics') =>
      parseExposition(await text('everything', format), format).flatMap(({ samples }) => samples);
    expect(await of('text')).toHaveLength(11);
    expect(await of('openmetrics')).toEqual(await of('text'));
  });

  test.each(['text', 'openmetrics'] as const)(
    'the exposition renders a single account, the agent alone or an unknown account in %s',
    async format => {
      const end = format === 'openmetrics' ? '# EOF\n' : '';
      const names = async (scope: Scope) => parseExposition(await text(scope, format), format).map(({ name }) => name);
      expect(await names({ account: 'one' })).toEqual(
        format === 'text' ? ['delivery_waiting', 'delivery_account_info'] : ['delivery_waiting', 'delivery_account'],
      );
      expect(await text({ account: 'one' }, format)).not.toContain('account="two"');
      expect(await names('agent')).toEqual([format === 'text' ? 'process_cpu_seconds_total' : 'process_cpu_seconds']);
      expect(await text({ account: 'nobody' }, format)).toBe(end);
      expect(await text('everything', format, [])).toBe(end);
    },
  );

  test('the exposition contains a family only while at least one source has samples of it', async () => {
    const { first, all } = createSources();
    const exposition = createExposition(all);
    const families = async (gzip: boolean) => {
      const body = await exposition.render({ scope: 'everything', format: 'text', gzip });
      return parseExposition((gzip ? gunzipSync(body) : body).toString(), 'text').map(({ name }) => name);
    };
    const before = await families(true);
    first.set({ delivery_gone: [{ labels: {}, value: 0 }] });
    expect(await families(true)).toEqual(['delivery_gone', ...before.filter(name => name !== 'delivery_account_info')]);
    first.set({});
    expect(await families(true)).toEqual(before.filter(name => name !== 'delivery_account_info'));
    expect(await families(false)).toEqual(await families(true));
  });

  test('the exposition reads a source again only when its revision changes', async () => {
    const { first, second, all } = createSources();
    const exposition = createExposition(all);
    const render = (scope: Scope, format: Format, gzip: boolean) => exposition.render({ scope, format, gzip });
    for (const format of ['text', 'openmetrics'] as const) {
      for (const gzip of [true, false]) await render('everything', format, gzip);
      await render({ account: 'one' }, format, true);
    }
    expect([first.reads(), second.reads()]).toEqual([1, 1]);
    first.set({});
    await render('agent', 'text', true);
    expect([first.reads(), second.reads()]).toEqual([1, 1]);
    await render('everything', 'text', true);
    expect([first.reads(), second.reads()]).toEqual([2, 1]);
  });

  test('after the sources are replaced, the exposition renders the new ones and omits the removed ones', async () => {
    const { first, second, agent } = createSources();
    const exposition = createExposition([first, agent]);
    const body = async (gzip: boolean) => {
      const rendered = await exposition.render({ scope: 'everything', format: 'text', gzip });
      return (gzip ? gunzipSync(rendered) : rendered).toString();
    };
    await body(true);
    exposition.use([second, agent]);
    const shown = await body(true);
    expect([first.reads(), second.reads(), agent.reads()]).toEqual([1, 1, 1]);
    expect(shown).toBe(await text('everything', 'text', [second, agent]));
    agent.set({});
    for (const gzip of [true, false]) expect(await body(gzip)).not.toContain('process_cpu_seconds_total');
  });

  test('the exposition contains all other sources if one source throws and an error handler is given', async () => {
    const { first, all } = createSources();
    const errors: [string | undefined, string][] = [];
    const exposition = createExposition(all, ({ account }, error) => errors.push([account, String(error)]));
    const names = async () => {
      const body = await exposition.render({ scope: 'everything', format: 'text', gzip: false });
      return parseExposition(body.toString(), 'text').map(({ name }) => name);
    };
    const before = await names();
    first.set({ delivery_else: [] });
    const during = await names();
    expect(during.length).toBeGreaterThan(0);
    expect(during).toEqual(before.filter(name => name !== 'delivery_account_info'));
    expect(await names()).toEqual(during);
    expect(errors).toEqual([['one', 'Error: samples of delivery_else, which their source does not list']]);
  });

  test('the exposition reads a source again after it failed to return samples', async () => {
    const { first, all } = createSources();
    const exposition = createExposition(all);
    const render = () => exposition.render({ scope: 'everything', format: 'text', gzip: true });
    const before = await render();
    first.set({ delivery_else: [] });
    await expect(render()).rejects.toThrow('samples of delivery_else, which their source does not list');
    await expect(render()).rejects.toThrow('delivery_else');
    first.set({ delivery_gone: [{ labels: {}, value: 0 }] });
    expect(await render()).not.toEqual(before);
  });
});

test('sources with equal definitions share one family', async () => {
  const sources = ['a', 'b'].map(name =>
    createFakeSource([gauge('delivery_a', 'x')], { delivery_a: [{ labels: {}, value: 1 }] }, name),
  );
  expect(await text('everything', 'text', sources)).toBe(
    '# HELP delivery_a x\n# TYPE delivery_a gauge\ndelivery_a{account="a"} 1\ndelivery_a{account="b"} 1\n',
  );
});

test.each([
  [0, '0.0'],
  [300, '300.0'],
  [0.25, '0.25'],
  [0.0001, '0.0001'],
  [0.000015, '1.5e-05'],
  [604_800, '604800.0'],
  [1_000_000, '1e+06'],
  [2_592_000, '2.592e+06'],
  [1e21, '1e+21'],
  [Infinity, '+Inf'],
])('the bucket bound %d is written as %s', (bound, expected) => {
  expect(formatLe(bound)).toBe(expected);
});
