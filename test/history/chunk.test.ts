import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  before,
  decodeChunk,
  encodeChunk,
  openChunk,
  STEPS,
  thin,
  timesOf,
  unpack,
  valuesOf,
} from '../../src/history/chunk.ts';
import { decodeColumn, encodeColumn } from '../../src/history/column.ts';
import { labelsOf, metricOf, seriesName } from '../../src/history/series-name.ts';
import { runs } from '../support/runs.ts';

const same = (text: string) => text;
const MINUTE = 60_000;

const value = fc.oneof(
  fc.integer({ min: 0, max: 100 }),
  fc.maxSafeInteger(),
  // Timestamps in seconds, exact to a millisecond.
  fc.integer({ min: 1_700_000_000_000, max: 1_900_000_000_000 }).map(ms => ms / 1000),
  fc.double({ noNaN: true }),
  fc.constant(Number.NaN),
);
/** Values that mostly stay, as they do. */
const column = fc
  .array(fc.tuple(value, fc.integer({ min: 1, max: 20 })), { minLength: 1, maxLength: 12 })
  .map(runs => runs.flatMap(([one, times]) => Array<number>(times).fill(one)));

describe('a column', () => {
  it('gives back every value', () => {
    const withoutSign = (values: readonly number[]) => values.map(one => one + 0);
    fc.assert(
      fc.property(column, values => {
        expect(decodeColumn(encodeColumn(withoutSign(values)), values.length)).toEqual(withoutSign(values));
      }),
    );
  });

  it.each([
    [[0, 0, 0], '0'],
    [[5, 5, 7, 7, 7, 6, 6], '5 =1 2 =2 -1'],
    [[Number.NaN, Number.NaN, 3], 'n =1 3'],
    [[1795310368.789, 1795310369.789], '~1795310368789 ~1000'],
    [[0.1234567, Number.POSITIVE_INFINITY], '@0.1234567 @Infinity'],
  ])('of %j is %s', (values, text) => {
    expect(encodeColumn(values)).toBe(text);
  });

  it.each(['', 'x', '1  2', '=3', '1 =9', '1 =-1 1 1 1', '1 1 1 1', '@', '1 =0.5 1 1'])('is not %j', text => {
    expect(() => decodeColumn(text, 3)).toThrow('not a column');
  });
});

/** Samples as an account shows them: series come and go. */
const samples = fc.array(
  fc
    .dictionary(fc.constantFrom('a', 'b{x="1"}', 'b{x="2"}', 'c{x="\\n\\"\\\\,é"}'), value)
    .map(one => new Map(Object.entries(one))),
  { minLength: 1, maxLength: 60 },
);

const START = Date.UTC(2026, 0, 1);
const atOf = (index: number) => START + index * MINUTE + ((index * 7919) % 3000);

function chunkOf(all: readonly ReadonlyMap<string, number>[]) {
  const open = openChunk(same);
  for (const [index, values] of all.entries()) open.add(atOf(index), values);
  const chunk = open.chunk();
  if (!chunk) throw new Error('empty');
  return chunk;
}

/** What a chunk says of each time. */
function read(chunk: ReturnType<typeof chunkOf>) {
  const series = valuesOf(chunk, () => true);
  return timesOf(chunk).map((at, index) => ({
    at,
    values: [...series]
      .flatMap(([name, values]) => (Number.isNaN(values[index]) ? [] : [[name, values[index] as number] as const]))
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  }));
}

const meant = (all: readonly ReadonlyMap<string, number>[]) =>
  all.map((values, index) => ({
    at: atOf(index),
    values: [...values]
      .filter(([, one]) => !Number.isNaN(one))
      .map(([name, one]) => [name, one + 0])
      .sort(([a = ''], [b = '']) => (a < b ? -1 : 1)),
  }));

describe('an hour', () => {
  it('gives back every sample: from memory, from the store, and going on after a restart', () => {
    fc.assert(
      fc.property(samples, fc.nat(), (all, cut) => {
        expect(read(chunkOf(all))).toEqual(meant(all));
        const points = unpack([chunkOf(all)]);
        for (const [name, values] of valuesOf(chunkOf(all), () => true)) {
          const each = values.map((value, index) => ({ at: timesOf(chunkOf(all))[index] as number, value }));
          expect(points(name)).toEqual(each.filter(({ value }) => !Number.isNaN(value)));
        }
        expect(read(decodeChunk(encodeChunk(chunkOf(all))))).toEqual(meant(all));
        const split = 1 + (cut % all.length);
        const resumed = openChunk(same, decodeChunk(encodeChunk(chunkOf(all.slice(0, split)))));
        for (const [index, values] of all.entries()) if (index >= split) resumed.add(atOf(index), values);
        expect(resumed.chunk()).toEqual(chunkOf(all));
      }),
      { numRuns: runs(25) },
    );
  });

  it('thinned or cut, has what it has left as it was', () => {
    fc.assert(
      fc.property(samples, fc.constantFrom(...STEPS), fc.nat(), (all, step, cut) => {
        const thinned = decodeChunk(encodeChunk(thin(chunkOf(all), step)));
        const slot = (index: number) => Math.floor(atOf(index) / (step * MINUTE));
        const kept = meant(all).filter((_, index) => index === 0 || slot(index) > slot(index - 1));
        expect({ step: thinned.step, samples: read(thinned) }).toEqual({ step, samples: kept });
        const end = atOf(cut % all.length);
        const earlier = before(chunkOf(all), end);
        expect(earlier ? read(earlier) : []).toEqual(meant(all).filter(({ at }) => at < end));
      }),
      { numRuns: runs(25) },
    );
  });

  const pack = (text: string) => deflateSync(text).toString('base64');
  it.each([
    ['no text', ''],
    ['other text', 'not a row'],
    ['half a row', encodeChunk(chunkOf([new Map([['a', 1]])])).slice(0, 20)],
    ['another version', pack('2 1 1\n5\na\n1')],
    ['a step that is none', pack('1 3 1\n5\na\n1')],
    ['a series without values', pack('1 1 1\n5\na')],
    ['times that go back', pack('1 1 2\n5 -1\na\n1')],
    ['the same time twice', pack('1 1 2\n5\na\n1')],
    ['no samples', pack('1 1 0\n5\na\n1')],
    ['a bomb', pack(`1 1 1\n5\na\n${' '.repeat(2 ** 25)}`)],
    ['a bomb of lines', pack(`1 1 1\n5${'\n'.repeat(200_002)}`)],
    ['more samples than an hour has minutes', pack(`1 1 61\n${'1 '.repeat(60)}1\na\n1`)],
    ['a length that would take all memory', pack('1 1 4000000000\n5\na\n1')],
  ])('is not read from %s', (_what, text) => {
    expect(() => decodeChunk(text)).toThrow();
  });
});

it('a name gives back its labels, whatever they are, in one line', () => {
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
