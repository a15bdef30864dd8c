import fc from 'fast-check';
import type { Family, Sample, Source } from '../../src/metrics/family.ts';

/** A source with replaceable samples. */
export interface FakeSource extends Source {
  set(samples: Readonly<Record<string, readonly Sample[]>>): void;
  /** Returns how many times the samples were read. */
  readonly reads: () => number;
}

export function createFakeSource(
  families: readonly Family[],
  samples: Readonly<Record<string, readonly Sample[]>> = {},
  account?: string,
): FakeSource {
  let current = new Map(Object.entries(samples));
  let reads = 0;
  return {
    ...(account === undefined ? {} : { account }),
    families,
    revision: () => current,
    samples() {
      reads++;
      return current;
    },
    set(next) {
      current = new Map(Object.entries(next));
    },
    reads: () => reads,
  };
}

/** Hostile label values: any code unit, but more often characters that have a meaning for parsers. */
export const hostileText = fc
  .array(
    fc.oneof(
      {
        weight: 3,
        arbitrary: fc.constantFrom(
          '"',
          '\\',
          '\n',
          '\\n',
          '\r',
          '\0',
          '{',
          '}',
          ',',
          '=',
          '#',
          ' ',
          '\u2028',
          '\ufeff',
        ),
      },
      { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
      {
        weight: 1,
        arbitrary: fc.integer({ min: 0, max: 0xffff }).map(unit => String.fromCharCode(unit).toWellFormed()),
      },
    ),
    { maxLength: 12 },
  )
  .map(parts => parts.join(''));

export const anyNumber = fc.oneof(
  fc.double(),
  fc.integer(),
  fc.constantFrom(Infinity, -Infinity, NaN, 1e21, 5e-324, -0),
);
