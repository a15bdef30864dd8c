export const recordOf = <K extends string, V>(keys: readonly K[], make: (key: K, index: number) => V) =>
  Object.fromEntries(keys.map((key, index) => [key, make(key, index)])) as Record<K, V>;

/** Returns a text by a name from outside, such as `constructor`, which any object inherits; empty if it is missing. */
export const textOf = (texts: Readonly<Record<string, string>>, name: string): string =>
  (Object.hasOwn(texts, name) ? texts[name] : undefined) ?? '';
