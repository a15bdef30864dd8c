import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { appendSample, type Chunk, decodeChunk, encodeChunk, openChunk, pick } from '../../src/history/chunk.ts';
import { labelsOf, metricOf, seriesName } from '../../src/history/series-name.ts';
import { runs } from '../support/runs.ts';

const MINUTE = 60_000;

const value = fc.oneof(
  fc.integer({ min: 0, max: 100 }),
  fc.maxSafeInteger(),
  // Timestamps in seconds with millisecond precision.
  fc.integer({ min: 1_700_000_000_000, max: 1_900_000_000_000 }).map(ms => ms / 1000),
  fc.double({ noDefaultInfinity: true, noNaN: true }),
  fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
);
/** Samples of an account in which series appear and disappear. */
const samples = fc.array(
  fc
    .dictionary(fc.constantFrom('a', 'b{x="1"}', 'b{x="2"}', 'c{x="\\n\\"\\\\,é"}'), value)
    .map(one => new Map(Object.entries(one))),
  { minLength: 1, maxLength: 60 },
);

const START = Date.UTC(2026, 0, 1);
const atOf = (index: number) => START + index * MINUTE + ((index * 7919) % 3000);

function chunkOf(all: readonly ReadonlyMap<string, number>[]) {
  const chunk = openChunk();
  for (const [index, values] of all.entries()) appendSample(chunk, atOf(index), values);
  return chunk;
}

/** Returns the values of a chunk by time. */
function read(chunk: Chunk) {
  return chunk.times.map((at, index) => ({
    at,
    values: [...chunk.series]
      .flatMap(([name, values]) => (Number.isNaN(values[index]) ? [] : [[name, values[index] as number] as const]))
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  }));
}

const expected = (all: readonly ReadonlyMap<string, number>[]) =>
  all.map((values, index) => ({
    at: atOf(index),
    values: [...values]
      .filter(([, one]) => Number.isFinite(one))
      .map(([name, one]) => [name, one + 0])
      .sort(([a = ''], [b = '']) => (a < b ? -1 : 1)),
  }));

describe('an hour of samples', () => {
  const pack = (row: unknown) => deflateSync(JSON.stringify(row)).toString('base64');

  it('a chunk returns every sample from memory, after a round trip through the store, and when resumed after a restart', () => {
    fc.assert(
      fc.property(samples, fc.nat(), (all, cut) => {
        expect(read(chunkOf(all))).toEqual(expected(all));
        expect(read(decodeChunk(encodeChunk(chunkOf(all))))).toEqual(expected(all));
        const split = 1 + (cut % all.length);
        const resumed = openChunk(decodeChunk(encodeChunk(chunkOf(all.slice(0, split)))));
        for (const [index, values] of all.entries()) if (index >= split) appendSample(resumed, atOf(index), values);
        expect(resumed).toEqual(chunkOf(all));
      }),
      { numRuns: runs(25) },
    );
  });

  it('a chunk keeps the remaining samples unchanged when it is cut', () => {
    fc.assert(
      fc.property(samples, fc.nat(), (all, cut) => {
        const end = atOf(cut % all.length);
        const earlier = pick(chunkOf(all), at => at < end);
        expect(earlier ? read(earlier) : []).toEqual(expected(all).filter(({ at }) => at < end));
      }),
      { numRuns: runs(25) },
    );
  });

  it.each([
    ['empty text', ''],
    ['other text', 'not a row'],
    ['half a row', encodeChunk(chunkOf([new Map([['a', 1]])])).slice(0, 20)],
    [
      'a row with another character',
      encodeChunk(chunkOf([new Map([['a', 1]])])).replace(/(?<=^.{30})./, found => (found === 'A' ? 'B' : 'A')),
    ],
    ['other JSON', pack(null)],
    ['a row without series', pack({ times: [5] })],
    ['a row without times', pack({ series: [] })],
    ['a decompression bomb', pack(' '.repeat(2 ** 25))],
  ])('decodeChunk rejects %s', (_what, text) => {
    expect(() => decodeChunk(text)).toThrow();
  });
});

it('a series name encodes arbitrary labels on one line', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.constantFrom('x', 'le', 'flow_control_key'), fc.string({ unit: 'binary' })),
      labels => {
        const name = seriesName('delivery_x', labels);
        expect(name.includes('\n')).toBe(false);
        expect(metricOf(name)).toBe('delivery_x');
        expect(Object.entries(labelsOf(name))).toEqual(Object.entries(labels));
      },
    ),
  );
});
