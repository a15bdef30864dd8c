export const recordOf = <K extends string, V>(keys: readonly K[], make: (key: K, index: number) => V) =>
  Object.fromEntries(keys.map((key, index) => [key, make(key, index)])) as Record<K, V>;
