import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createExposition } from '../../src/metrics/exposition.ts';
import { createHistogram, histogram, histogramSamples, observeValue } from '../../src/metrics/family.ts';
import { createNative, isComplete, observeNative } from '../../src/metrics/native-histogram.ts';
import { decodeFamilies, nativeBuckets } from '../support/metric-families.ts';
import { runs } from '../support/runs.ts';
import { createFakeSource } from './sources.ts';

const family = histogram('delivery_wait_seconds', 'Waited.');

function nativeOf(values: readonly number[]) {
  const native = createNative();
  for (const value of values) observeNative(native, value);
  return native;
}

/** Returns the decoded histogram of these values. */
function decoded(values: readonly number[]) {
  const state = createHistogram([1]);
  for (const value of values) observeValue(state, [1], value);
  const source = createFakeSource([family], { [family.name]: histogramSamples({}, [1], state) });
  const bytes = createExposition([source]).render({ scope: 'everything', format: 'protobuf', gzip: false });
  const found = decodeFamilies(bytes)[0]?.metric[0]?.histogram;
  if (!found) throw new Error('no histogram');
  return found;
}

const anyWait = fc.oneof(
  fc.constant(0),
  fc.double({ min: 2 ** -20, max: 2 ** 20, noNaN: true }),
  fc.nat(100_000).map(ms => ms / 1000),
  // These values are exactly on bounds.
  fc.integer({ min: -80, max: 80 }).map(index => 2 ** (index / 8)),
  fc.integer({ min: -1000, max: 1000 }).map(octave => 2 ** octave),
);

describe('native buckets', () => {
  test('each value lies within the bounds of its native bucket; these bounds differ by about 9 % if 160 buckets suffice', () => {
    fc.assert(
      fc.property(fc.array(anyWait, { maxLength: 60 }), values => {
        const found = decoded(values);
        expect(found.schema).toBe(3);
        const buckets = nativeBuckets(found).filter(({ count }) => count > 0);
        const rest = values.filter(value => value > 2 ** -128).sort((a, b) => a - b);
        expect(found.zeroCount).toBe(values.length - rest.length);
        for (const { above, upTo, count } of buckets) {
          expect(upTo / above).toBeLessThan(1.0906);
          for (const value of rest.splice(0, count)) {
            // The computed bounds are rounded.
            expect(value).toBeGreaterThan(above * (1 - 1e-14));
            expect(value).toBeLessThanOrEqual(upTo * (1 + 1e-14));
          }
        }
        expect(rest).toEqual([]);
      }),
    );
  });

  test.each([
    [1, 0],
    [1.0000000000000002, 1],
    [2, 8],
    [2.0000000000000004, 9],
    [0.9999999999999999, 0],
    [0.5, -8],
    [1.0905077326652577, 1],
    // The largest value below a power of two: its logarithm is rounded up.
    [0.49999999999999994, -8],
    [2 ** 40 - 2 ** -13, 320],
    [5e-324, undefined],
    [2 ** -128, undefined],
    [2 ** -127.9, -1023],
    [Number.MAX_VALUE, 8192],
  ])('the native bucket of %d has index %s', (value, index) => {
    const { zero, first, counts } = nativeOf([value]);
    expect(counts.length === 0 ? undefined : first).toBe(index);
    expect(zero).toBe(index === undefined ? 1 : 0);
  });

  test('native buckets are merged in pairs until there are at most 160, regardless of the order of values', () => {
    // An octave has 8 buckets at schema 3; 1,100 octaves fit into 160 buckets only at schema -3.
    const wide = fc.array(fc.integer({ min: -1000, max: 8000 }), { minLength: 100, maxLength: 2000 });
    fc.assert(
      fc.property(wide, fc.nat(), (indices, turn) => {
        const values = indices.map(index => 2 ** ((index - 0.5) / 8));
        const native = nativeOf(values);
        expect(native.populated).toBeLessThanOrEqual(160);
        expect(native.populated).toBe(native.counts.filter(count => count > 0).length);
        expect(isComplete(native, values.length)).toBe(true);
        const at = turn % values.length;
        expect(nativeOf([...values.slice(at), ...values.slice(0, at)])).toEqual(native);
        const kept = 2 ** (3 - native.schema);
        const mine = new Set(indices.map(index => Math.ceil(index / kept)));
        expect(native.populated).toBe(mine.size);
        // The resolution is the finest possible.
        const finer = new Set(indices.map(index => Math.ceil((2 * index) / kept)));
        expect(native.schema === 3 || finer.size > 160).toBe(true);
      }),
      { numRuns: runs(30) },
    );
  });

  test('native buckets accept further values after a round trip through JSON', () => {
    const values = Array.from({ length: 500 }, (_, index) => (index * index) / 7);
    const stored = JSON.parse(JSON.stringify(nativeOf(values.slice(0, 250))));
    for (const value of values.slice(250)) observeNative(stored, value);
    expect(stored).toEqual(nativeOf(values));
  });

  test('native buckets are dropped once a value cannot be represented', () => {
    expect(decoded([1, 2, Number.POSITIVE_INFINITY])).toMatchObject({ sampleCount: 3, zeroThreshold: 0 });
    expect(decoded([1, 2])).toMatchObject({ sampleCount: 2, zeroThreshold: 2 ** -128 });
  });
});
