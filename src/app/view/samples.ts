import type { Family, Sample, Source } from '../../metrics/family.ts';

/** What an account's sources show at one moment: the same numbers as the exposition's. */
export interface Shown {
  /** Samples of a family, in the exposition's order; none where it is not shown. */
  of(family: Family): readonly Sample[];
  /** The value of a family with one series; undefined where it is not shown. */
  one(family: Family): number | undefined;
}

/** Asks each source once, when something of it is wanted. */
export function shownBy(sources: readonly Source[]): Shown {
  const asked = new Map<Source, ReadonlyMap<string, readonly Sample[]>>();
  function samplesOf(source: Source): ReadonlyMap<string, readonly Sample[]> {
    const samples = asked.get(source) ?? source.samples();
    asked.set(source, samples);
    return samples;
  }
  const of = ({ name }: Family) =>
    sources
      .filter(({ families }) => families.some(family => family.name === name))
      .flatMap(source => samplesOf(source).get(name) ?? []);
  return { of, one: family => of(family)[0]?.value };
}
