import { BoundedMap } from '../kit/bounded-map.ts';

/** Texts that are remembered: names of series, of which accounts mostly have the same. */
const MOST = 10_000;

/** Gives one string for equal ones, as far as they were asked for lately. */
export function createSharing(): (text: string) => string {
  const known = new BoundedMap<string, string>(MOST);
  return text => {
    // A copy: a name that was cut from a row would keep the whole row alive.
    const shared = known.get(text) ?? Buffer.from(text).toString();
    known.set(shared, shared);
    return shared;
  };
}
