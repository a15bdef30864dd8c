import fc from 'fast-check';
import type { Family, Sample, Source } from '../../src/metrics/family.ts';

/** A source whose samples a test replaces. */
export interface FakeSource extends Source {
  set(samples: Readonly<Record<string, readonly Sample[]>>): void;
  /** How often samples were asked for. */
  readonly asked: () => number;
}

export function createFakeSource(
  families: readonly Family[],
  samples: Readonly<Record<string, readonly Sample[]>> = {},
  account?: string,
): FakeSource {
  let current = new Map(Object.entries(samples));
  let asked = 0;
  return {
    ...(account === undefined ? {} : { account }),
    families,
    revision: () => current,
    samples() {
      asked++;
      return current;
    },
    set(next) {
      current = new Map(Object.entries(next));
    },
    asked: () => asked,
  };
}

/** Label values of the worst kind: every code unit, and more often those that mean something to a parser. */
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
          '\ud83d',
          '\udca9',
          '\u2028',
          '\ufeff',
        ),
      },
      { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
      { weight: 1, arbitrary: fc.integer({ min: 0, max: 0xffff }).map(unit => String.fromCharCode(unit)) },
    ),
    { maxLength: 12 },
  )
  .map(parts => parts.join(''));

export const anyNumber = fc.oneof(
  fc.double(),
  fc.integer(),
  fc.constantFrom(Infinity, -Infinity, NaN, 1e21, 5e-324, -0),
);
