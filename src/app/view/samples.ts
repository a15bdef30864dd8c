import type { Family, Sample, Source } from '../../metrics/family.ts';

/** What an account's sources show at one moment: the same numbers as the exposition's. */
export interface Shown {
  /** Samples of a family, in the exposition's order; none where it is not shown. */
  of(family: Pick<Family, 'name'>): readonly Sample[];
  /** The value of a family with one series; undefined where it is not shown. */
  one(family: Pick<Family, 'name'>): number | undefined;
}

/** Asks each source once, when something is wanted. */
export function shownBy(sources: readonly Source[]): Shown {
  let asked: Map<string, readonly Sample[]> | undefined;

  function samples(): Map<string, readonly Sample[]> {
    const found = new Map<string, readonly Sample[]>();
    for (const source of sources) {
      // Some make their samples when they are asked whether there are new ones.
      source.revision();
      for (const [name, own] of source.samples()) {
        const before = found.get(name);
        found.set(name, before ? [...before, ...own] : own);
      }
    }
    return found;
  }

  const of = ({ name }: Pick<Family, 'name'>) => {
    asked ??= samples();
    return asked.get(name) ?? [];
  };
  return { of, one: family => of(family)[0]?.value };
}
