import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createHistogram, histogramSamples, observeValue } from '../../src/metrics/family.ts';

/** Returns the values of a histogram's lines by suffix and bound. */
function linesOf(bounds: readonly number[], values: readonly number[]): Record<string, number> {
  const histogram = createHistogram(bounds);
  for (const value of values) observeValue(histogram, bounds, value);
  const lines = histogramSamples({ result: 'success' }, bounds, histogram);
  return Object.fromEntries(
    lines.map(({ labels, value, suffix }) => ['le' in labels ? `${suffix} ${labels.le}` : suffix, value]),
  );
}

it('a histogram counts a value that equals a bound in the bucket of that bound', () => {
  expect(linesOf([0.1, 1, 10], [0, 0.1, 0.100001, 1, 10, 10.5])).toEqual({
    '_bucket 0.1': 2,
    '_bucket 1.0': 4,
    '_bucket 10.0': 5,
    '_bucket +Inf': 6,
    _sum: 21.700001,
    _count: 6,
  });
});

it('a histogram lists all buckets, sum and count before the first observation', () => {
  expect(linesOf([1, 2], [])).toEqual({ '_bucket 1.0': 0, '_bucket 2.0': 0, '_bucket +Inf': 0, _sum: 0, _count: 0 });
});

it('a histogram lists the labels on every line, and the buckets in order before sum and count', () => {
  const lines = histogramSamples({ result: 'error' }, [1, 2], createHistogram([1, 2]));
  expect(lines.map(({ labels }) => labels)).toEqual([
    { result: 'error', le: '1.0' },
    { result: 'error', le: '2.0' },
    { result: 'error', le: '+Inf' },
    { result: 'error' },
    { result: 'error' },
  ]);
  expect(lines.map(({ suffix }) => suffix)).toEqual(['_bucket', '_bucket', '_bucket', '_sum', '_count']);
});

it('a histogram adds decimal values to the sum without binary rounding errors', () => {
  expect(linesOf([1], [0.1, 0.2])._sum).toBe(0.3);
  expect(linesOf([1], Array(1000).fill(0.001))._sum).toBe(1);
});

it('bucket counts are cumulative for any values', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.integer({ min: 0, max: 50 }), { minLength: 1, maxLength: 8 }),
      fc.array(fc.integer({ min: 0, max: 60 })),
      (unsorted, values) => {
        const bounds = unsorted.sort((a, b) => a - b);
        const expected = bounds.map(bound => values.filter(value => value <= bound).length);
        const sum = values.reduce((a, b) => a + b, 0);
        expect(Object.values(linesOf(bounds, values))).toEqual([...expected, values.length, sum, values.length]);
      },
    ),
  );
});
