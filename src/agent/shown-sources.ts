import type { Config } from '../config/schema.ts';
import { createGlob } from '../kit/glob.ts';
import { onlyFamilies, type Source } from '../metrics/family.ts';

type Collect = Pick<Config['accounts'][number]['collect'], 'families'>;

/** Whether the account exposes the family of this name. */
export function exposes({ families }: Collect): (family: string) => boolean {
  const excluded = families.exclude.map(createGlob);
  return name => !excluded.some(matches => matches(name));
}

/** The sources without the families that their accounts exclude. */
export type ShownSources = (
  sources: readonly Source[],
  accounts: readonly { readonly name: string; readonly collect: Collect }[],
) => readonly Source[];

/** A source stays the same object as long as neither it nor what is excluded of it changes, so that what is rendered of it is kept. */
export function createShownSources(): ShownSources {
  const known = new WeakMap<Source, { readonly excluded: string; readonly shown: Source }>();
  return (sources, accounts) => {
    const byName = new Map(accounts.map(({ name, collect }) => [name, collect]));
    return sources.map(source => {
      const collect = source.account === undefined ? undefined : byName.get(source.account);
      if (!collect || collect.families.exclude.length === 0) return source;
      const excluded = JSON.stringify(collect.families.exclude);
      const before = known.get(source);
      if (before?.excluded === excluded) return before.shown;
      const isExposed = exposes(collect);
      const shown = onlyFamilies(source, ({ name }) => isExposed(name));
      known.set(source, { excluded, shown });
      return shown;
    });
  };
}
