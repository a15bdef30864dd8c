import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CONTENT_TYPES, createExposition } from '../../src/metrics/exposition.ts';
import {
  counter,
  createHistogram,
  type Family,
  formatLe,
  gauge,
  histogram,
  histogramSamples,
  info,
  observeValue,
  type Sample,
  type Source,
  withNative,
} from '../../src/metrics/family.ts';
import { type DecodedFamily, decodeFamilies, nativeBuckets, seriesOfFamily } from '../support/metric-families.ts';
import { parseExposition } from '../support/parse-exposition.ts';
import { anyNumber, createFakeSource, hostileText } from './sources.ts';

const render = (sources: readonly Source[], format: 'text' | 'protobuf', gzip = false) =>
  createExposition(sources).render({ scope: 'everything', format, gzip });

function decoded(family: Family, samples: readonly Sample[], account?: string): DecodedFamily | undefined {
  return decodeFamilies(render([createFakeSource([family], { [family.name]: samples }, account)], 'protobuf'))[0];
}

const waits = histogram('delivery_wait_seconds', 'Waited.', ['result']);

describe('protobuf messages', () => {
  test('protobuf messages have the media type that Prometheus requests', () => {
    expect(CONTENT_TYPES.protobuf).toBe(
      'application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited',
    );
  });

  test('messages of counters contain the start time with millisecond precision', () => {
    const seen = counter('delivery_seen_bytes_total', 'Seen: "ä" \\ and\nmore.', ['key']);
    const samples = [
      { labels: { key: 'a' }, value: 1e21, since: 1_800_000_000_789 },
      { labels: { key: undefined }, value: 0 },
    ];
    expect(decoded(seen, samples, 'pro"d')).toMatchObject({
      name: 'delivery_seen_bytes_total',
      help: 'Seen: "ä" \\ and\nmore.',
      type: 'COUNTER',
      unit: 'bytes',
      metric: [
        {
          label: [
            { name: 'account', value: 'pro"d' },
            { name: 'key', value: 'a' },
          ],
          counter: { value: 1e21, createdTimestamp: { seconds: 1_800_000_000, nanos: 789_000_000 } },
        },
        { label: [{ name: 'account', value: 'pro"d' }], counter: { value: 0, createdTimestamp: null } },
      ],
    });
  });

  test('messages of info families have the type gauge, because protobuf has no info type', () => {
    const found = decoded(info('delivery_account_info', 'x', ['plan']), [{ labels: { plan: 'pro' }, value: 1 }]);
    expect(found).toMatchObject({ name: 'delivery_account_info', type: 'GAUGE', unit: '' });
    expect(found?.metric[0]?.gauge).toEqual({ value: 1 });
  });

  test('messages of histograms contain classic and native buckets, exemplars and the start time', () => {
    const state = createHistogram([1, 10]);
    const trace = { traceId: '0af7651916cd43dd8448eb211c80319c', time: 1_800_000_000_250 };
    // Two empty buckets lie between 1 and 1.25, many between 1.25 and 12.
    for (const value of [0, 1, 1, 1, 1.25]) observeValue(state, [1, 10], value);
    observeValue(state, [1, 10], 12, trace);
    const found = decoded(waits, histogramSamples({ result: 'ok' }, [1, 10], state, 1_700_000_000_000));
    const one = found?.metric[0]?.histogram;
    expect(one).toMatchObject({
      sampleCount: 6,
      sampleSum: 16.25,
      schema: 3,
      zeroThreshold: 2 ** -128,
      zeroCount: 1,
      positiveSpan: [
        { offset: 0, length: 4 },
        { offset: 25, length: 1 },
      ],
      positiveDelta: [3, -3, 0, 1, 0],
      createdTimestamp: { seconds: 1_700_000_000, nanos: 0 },
    });
    expect(one?.bucket.map(({ upperBound, cumulativeCount }) => [upperBound, cumulativeCount])).toEqual([
      [1, 4],
      [10, 5],
      [Number.POSITIVE_INFINITY, 6],
    ]);
    expect(one?.bucket.map(({ exemplar }) => exemplar)).toEqual([
      null,
      null,
      {
        label: [{ name: 'trace_id', value: trace.traceId }],
        value: 12,
        timestamp: { seconds: 1_800_000_000, nanos: 250_000_000 },
      },
    ]);
  });

  test('messages of histograms without observations have native buckets', () => {
    const found = decoded(waits, histogramSamples({}, [1], createHistogram([1])));
    expect(found?.metric[0]?.histogram).toMatchObject({ schema: 3, zeroThreshold: 2 ** -128, zeroCount: 0 });
  });

  test.each([
    ['was stored before native buckets existed', { counts: [4, 1], sum: 9 }],
    [
      'was updated by a version without native buckets',
      { counts: [4, 1], sum: 9, native: { ...createHistogram([1]).native, counts: [4], populated: 1 } },
    ],
  ])('messages of a histogram that %s have no native buckets', (_, stored) => {
    const state = JSON.parse(JSON.stringify(stored));
    observeValue(state, [1], 3);
    const one = decoded(waits, histogramSamples({}, [1], state))?.metric[0]?.histogram;
    expect(one).toMatchObject({ sampleCount: 6, zeroThreshold: 0, positiveSpan: [], positiveDelta: [] });
    expect(one?.bucket.map(({ cumulativeCount }) => cumulativeCount)).toEqual([4, 6]);
  });

  test('a stored histogram without native buckets is reset to zero', () => {
    const stored = createHistogram([1]);
    observeValue(stored, [1], 3);
    expect(withNative(JSON.parse(JSON.stringify(stored)), [1])).toEqual(stored);
    expect(withNative({ counts: [4, 1], sum: 9 }, [1])).toEqual(createHistogram([1]));
  });

  test('messages never mix histograms with and without native buckets, which would make the scrape fail', () => {
    const samples = (result: string, isNative: boolean) => {
      const state = createHistogram([1], isNative);
      observeValue(state, [1], 3);
      return histogramSamples({ result }, [1], state);
    };
    const sources = ['a', 'b'].map(account =>
      createFakeSource([waits], { [waits.name]: [...samples('old', false), ...samples('new', true)] }, account),
    );
    const messages = decodeFamilies(render(sources, 'protobuf')).map(({ name, metric }) => ({
      name,
      series: metric.map(({ label, histogram }) => [
        ...label.map(({ value }) => value),
        histogram?.positiveDelta.length,
      ]),
    }));
    expect(messages).toEqual([
      {
        name: waits.name,
        series: [
          ['a', 'new', 1],
          ['b', 'new', 1],
        ],
      },
      {
        name: waits.name,
        series: [
          ['a', 'old', 0],
          ['b', 'old', 0],
        ],
      },
    ]);
  });

  test('messages omit a family without samples, and are empty without sources', () => {
    const empty = createFakeSource([gauge('delivery_none', 'x')], {}, 'a');
    expect(render([empty], 'protobuf')).toHaveLength(0);
    expect(render([], 'protobuf')).toHaveLength(0);
  });

  test('messages of thousands of series are complete, compressed or not', () => {
    const keys = gauge('delivery_keys', 'x', ['key']);
    const sources = Array.from({ length: 70 }, (_, account) =>
      createFakeSource(
        [keys],
        {
          delivery_keys: Array.from({ length: account * 20 }, (_, key) => ({ labels: { key: `ä${key}` }, value: key })),
        },
        `account-${account}`,
      ),
    );
    const plain = render(sources, 'protobuf');
    expect(gunzipSync(render(sources, 'protobuf', true)).equals(plain)).toBe(true);
    expect(decodeFamilies(plain)[0]?.metric).toHaveLength((69 * 70 * 20) / 2);
  });
});

/** Returns the values of the text format, keyed by series. `le` is normalized to a number. */
function textSeries(sources: readonly Source[]): [string, number][] {
  return parseExposition(render(sources, 'text').toString(), 'text').flatMap(({ samples }) =>
    samples.map(({ name, labels, value }): [string, number] => {
      const pairs = Object.entries(labels).map(([label, text]) =>
        label === 'le' ? [label, text === '+Inf' ? text : String(Number(text))] : [label, text],
      );
      return [JSON.stringify([name, ...pairs]), value];
    }),
  );
}

const anySampleOf = (value: fc.Arbitrary<number>) =>
  fc.record(
    {
      labels: fc.record({ first: hostileText, second: fc.option(hostileText, { nil: undefined }) }),
      value,
      since: fc.nat(2e12),
    },
    { requiredKeys: ['labels', 'value'] },
  );
const anyWait = fc.oneof(fc.nat(3), fc.double({ min: 0, max: 1e7, noNaN: true }));

test('the protobuf and text formats contain the same values', () => {
  const families = [
    gauge('delivery_g', 'x', ['first', 'second']),
    counter('delivery_c_total', 'x', ['first', 'second']),
  ];
  const bounds = [0.25, 1, 300, 1_000_000];
  const anySeries = fc.record({ result: hostileText, values: fc.array(anyWait, { maxLength: 20 }) });
  fc.assert(
    fc.property(
      fc.option(hostileText, { nil: undefined }),
      fc.array(anySampleOf(anyNumber), { maxLength: 8 }),
      fc.array(anySampleOf(fc.double({ min: 0, noNaN: true })), { maxLength: 8 }),
      fc.array(anySeries, { maxLength: 4 }),
      (account, gauges, counters, series) => {
        const lines = series.flatMap(({ result, values }) => {
          const state = createHistogram(bounds);
          for (const value of values) observeValue(state, bounds, value);
          return histogramSamples({ result }, bounds, state);
        });
        const samples = { delivery_g: gauges, delivery_c_total: counters, delivery_wait_seconds: lines };
        const source = createFakeSource([...families, waits], samples, account);
        const messages = decodeFamilies(render([source], 'protobuf'));
        expect(messages.flatMap(family => [...seriesOfFamily(family)])).toEqual(textSeries([source]));
        for (const { histogram } of messages.flatMap(({ metric }) => metric)) {
          if (!histogram) continue;
          const native = nativeBuckets(histogram).reduce((sum, { count }) => sum + count, histogram.zeroCount);
          expect(native).toBe(histogram.sampleCount);
        }
      },
    ),
  );
});

test("histograms of prom-client produce the same messages as the exporter's own histograms", () => {
  const lines: Sample[] = [
    ...[0.1, Number.POSITIVE_INFINITY].map((bound, index) => ({
      labels: { le: formatLe(bound), result: 'ok' },
      suffix: '_bucket' as const,
      value: index + 1,
    })),
    { labels: { result: 'ok' }, suffix: '_sum', value: 3 },
    { labels: { result: 'ok' }, suffix: '_count', value: 2 },
  ];
  const state = createHistogram([0.1], false);
  for (const value of [0, 3]) observeValue(state, [0.1], value);
  expect(decoded(waits, lines)).toEqual(decoded(waits, histogramSamples({ result: 'ok' }, [0.1], state)));
});
