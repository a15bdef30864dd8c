import { BoundedMap } from '../kit/bounded-map.ts';

/** Texts that are remembered: sets of series of accounts, which are mostly the same. */
const MOST = 100;

/** Gives one string for equal ones, as far as they were asked for lately. */
export function createSharing(): (text: string) => string {
  const known = new BoundedMap<string, string>(MOST);
  return text => {
    const shared = known.get(text) ?? text;
    known.set(shared, shared);
    return shared;
  };
}
