export const recordOf = <K extends string, V>(keys: readonly K[], make: (key: K, index: number) => V) =>
  Object.fromEntries(keys.map((key, index) => [key, make(key, index)])) as Record<K, V>;

/** Returns the text with this name; empty if missing, even for a name that any object inherits, such as `constructor`. */
export const textOf = (texts: Readonly<Record<string, string>>, name: string): string =>
  (Object.hasOwn(texts, name) ? texts[name] : undefined) ?? '';
