/** Memory overhead of a cache entry, counted as characters. */
const ROW_WEIGHT = 64;

/** Caches results of `find`. Empties the cache when it exceeds `limit` characters. */
export function memoize<T extends string | boolean>(find: (text: string) => T, limit: number): (text: string) => T {
  const cache = new Map<string, T>();
  let weight = 0;
  return text => {
    const known = cache.get(text);
    if (known !== undefined) return known;
    const found = find(text);
    weight += text.length + ROW_WEIGHT;
    if (weight > limit) {
      cache.clear();
      weight = text.length + ROW_WEIGHT;
    }
    cache.set(text, found);
    return found;
  };
}
