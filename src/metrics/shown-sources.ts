import { createGlob } from '../kit/glob.ts';
import { onlyFamilies, type Source } from './family.ts';

interface Account {
  readonly name: string;
  readonly collect: { readonly families: { readonly exclude: readonly string[] } };
}

/**
 * Returns a function that removes the excluded families of each account. A returned source stays the same object until the
 * original or its exclusions change, so that its rendered text is kept.
 */
export function createShownSources(): (sources: readonly Source[], accounts: readonly Account[]) => readonly Source[] {
  const known = new WeakMap<Source, { readonly excluded: string; readonly shown: Source }>();
  return (sources, accounts) => {
    const excludedBy = new Map(accounts.map(({ name, collect }) => [name, collect.families.exclude]));
    return sources.map(source => {
      const patterns = excludedBy.get(source.account ?? '') ?? [];
      if (patterns.length === 0) return source;
      const excluded = JSON.stringify(patterns);
      const before = known.get(source);
      if (before?.excluded === excluded) return before.shown;
      const globs = patterns.map(createGlob);
      const shown = onlyFamilies(source, ({ name }) => !globs.some(matches => matches(name)));
      known.set(source, { excluded, shown });
      return shown;
    });
  };
}
