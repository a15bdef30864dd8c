/** Size of a result without its text, in characters. */
const ROW_WEIGHT = 64;

/** Caches results of `find` by text. The cache is emptied when its texts exceed `most` characters. */
export function memoize<T extends string | boolean>(find: (text: string) => T, most: number): (text: string) => T {
  const remembered = new Map<string, T>();
  let weight = 0;
  return text => {
    const known = remembered.get(text);
    if (known !== undefined) return known;
    const found = find(text);
    weight += text.length + ROW_WEIGHT;
    if (weight > most) {
      remembered.clear();
      weight = text.length + ROW_WEIGHT;
    }
    remembered.set(text, found);
    return found;
  };
}
