import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  createHistogram,
  type HistogramState,
  histogram,
  histogramSamples,
  observeValue,
  type Source,
  withNative,
} from '../../src/metrics/family.ts';
import type { Histograms } from '../../src/push/options.ts';
import { type Pushed, takeSnapshot } from '../../src/push/snapshot.ts';
import { histogramsOf } from '../../src/push/target.ts';
import { decodeMetrics, type ReceivedPoint } from '../support/otlp-metrics.ts';
import { runs } from '../support/runs.ts';

const NOW = 1_790_000_000_000;
const BOUNDS = [0.5, 1, 300];
const wait = histogram('x_wait_seconds', 'Wait.', ['place']);

type Exponential = NonNullable<ReceivedPoint['exponential']>;

const sourceOf = (states: Readonly<Record<string, HistogramState>>, since = 1_780_000_000_000): Source => ({
  account: 'a',
  families: [wait],
  revision: () => ({}),
  samples: () =>
    new Map([
      [
        wait.name,
        Object.entries(states).flatMap(([place, state]) => histogramSamples({ place }, BOUNDS, state, since)),
      ],
    ]),
});

async function push(
  source: Source,
  pushed: Pushed = new Map(),
  histograms: Histograms = 'base2_exponential_bucket_histogram',
) {
  const points: ReceivedPoint[] = [];
  const failed = (_: Source, error: unknown) => {
    throw error;
  };
  const deps = { origin: { version: '1', resource: {} }, histograms, clock: { now: () => NOW }, failed };
  for await (const { body } of takeSnapshot([source], pushed, deps)) points.push(...decodeMetrics(Buffer.from(body)));
  return points;
}

function stateOf(values: readonly number[]): HistogramState {
  const state = createHistogram(BOUNDS);
  for (const value of values) observeValue(state, BOUNDS, value);
  return state;
}

/** Values above zero, in order, each with the index of the bucket that it must be in, as the buckets have so many. */
function spread({ offset, counts }: Exponential, values: readonly number[]): [value: number, index: number][] {
  const sorted = values.filter(value => value > 0).sort((a, b) => a - b);
  const indices = counts.flatMap((count, at) => Array<number>(count).fill(offset + at));
  expect(indices).toHaveLength(sorted.length);
  return sorted.map((value, at) => [value, indices[at] as number]);
}

describe('base2_exponential_bucket_histogram', () => {
  it('puts each value into the bucket of OTLP that it belongs to, as the official decoder reads it', async () => {
    const octave = fc.tuple(fc.double({ min: 1, max: 2, noNaN: true }), fc.integer({ min: -120, max: 120 }));
    const value = fc.oneof(
      fc.constant(0),
      fc.double({ min: 0.001, max: 1000, noNaN: true }),
      octave.map(([share, exponent]) => share * 2 ** exponent),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(value, { maxLength: 400 }), async values => {
        const state = stateOf(values);
        const [point, ...others] = await push(sourceOf({ p: state }));
        expect(others).toEqual([]);
        expect(point).toMatchObject({
          type: 'exponential_histogram',
          unit: 's',
          labels: { account: 'a', place: 'p' },
          value: values.length,
          since: 1_780_000_000_000,
          time: NOW,
        });
        const { exponential } = point as ReceivedPoint;
        if (!exponential) throw new Error('no buckets');
        expect(exponential.zero).toBe(values.filter(each => each === 0).length);
        expect(exponential.zeroThreshold).toBe(2 ** -128);
        for (const [each, index] of spread(exponential, values)) {
          const place = Math.log2(each) * 2 ** exponential.scale;
          expect(place).toBeGreaterThan(index - 1e-9);
          expect(place).toBeLessThan(index + 1 + 1e-9);
        }
      }),
      { numRuns: runs(60) },
    );
  });

  it('has a power of two in the bucket below it, whatever the scale', async () => {
    for (const most of [1, 40, 500]) {
      const exponents = Array.from({ length: most }, (_, index) => index - Math.floor(most / 2)).map(
        exponent => exponent / 4,
      );
      const powers = [-3, -1, 0, 1, 2, 10].map(exponent => 2 ** exponent);
      const values = [...exponents.map(exponent => 2 ** exponent * 1.01), ...powers];
      const [point] = await push(sourceOf({ p: stateOf(values) }));
      const { exponential } = point as ReceivedPoint;
      if (!exponential) throw new Error('no buckets');
      if (most === 500) expect(exponential.scale).toBeLessThan(3);
      for (const [value, index] of spread(exponential, values)) {
        if (powers.includes(value)) expect(index).toBe(Math.ceil(Math.log2(value) * 2 ** exponential.scale) - 1);
      }
    }
  });

  it('tells of buckets that began later what came since, and of none the classic ones', async () => {
    const [{ native: _, ...before }, since] = [stateOf([1, 2, 4]), 1_785_000_000_000];
    const later = withNative({ ...before, exemplars: [null, { traceId: 'ab'.repeat(16), value: 1, time: 1 }] }, since);
    observeValue(later, BOUNDS, 8, { traceId: 'cd'.repeat(16), time: since + 1 });
    const points = await push(sourceOf({ later, none: { ...before, counts: [0, 1, 2, 0] } }));
    expect(points).toMatchObject([
      { type: 'exponential_histogram', labels: { place: 'later' }, value: 1, sum: 8, since, exemplars: [{ value: 8 }] },
      { type: 'histogram', labels: { place: 'none' }, value: 3, counts: [0, 1, 2, 0] },
    ]);
  });

  it('ends a series of one kind when it goes on as the other', async () => {
    const [pushed, source] = [new Map(), sourceOf({ p: stateOf([1, 2]) })];
    expect(await push(source, pushed, 'explicit_bucket_histogram')).toMatchObject([{ type: 'histogram', value: 2 }]);
    expect(await push(source, pushed)).toMatchObject([
      { type: 'exponential_histogram', value: 2 },
      { type: 'histogram', value: undefined, bounds: BOUNDS },
    ]);
    expect(await push(source, pushed)).toHaveLength(1);
    const gone = await push(sourceOf({}), pushed);
    expect(gone).toMatchObject([{ type: 'exponential_histogram', value: undefined, labels: { place: 'p' } }]);
    expect(gone[0]).not.toHaveProperty('sum');
    expect(await push(sourceOf({}), pushed)).toEqual([]);
  });
});

it('takes what the environment asks for before the configuration, in any case, and refuses what is not there', () => {
  const name = 'OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION';
  const [classic, base2] = ['explicit_bucket_histogram', 'base2_exponential_bucket_histogram'] as const;
  expect(histogramsOf({ histograms: base2 }, {})).toBe(base2);
  expect(histogramsOf({ histograms: classic }, { [name]: '' })).toBe(classic);
  expect(histogramsOf({ histograms: classic }, { [name]: base2.toUpperCase() })).toBe(base2);
  expect(() => histogramsOf({ histograms: classic }, { [name]: 'native' })).toThrow(`${name} is native`);
});
