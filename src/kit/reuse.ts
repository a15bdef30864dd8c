/** Values by key, each made from parts: the next generation gets the same value where its parts are the same. */
export interface Reuse<T> {
  /** The value that was made last with this key and these parts, compared one by one; else a new one. */
  of(key: string, parts: readonly unknown[], make: () => T): T;
  /** Forgets the generation before: else each would hold on to all before it. What was not asked for until now is made anew. */
  settle(): void;
  /** Those that were asked for. */
  readonly made: ReadonlyMap<string, { readonly parts: readonly unknown[]; readonly value: T }>;
}

/** `before`: the generation before, which is not changed: it may go on instead of this one. */
export function createReuse<T>(before?: Reuse<T>): Reuse<T> {
  let last = before?.made;
  const made = new Map<string, { readonly parts: readonly unknown[]; readonly value: T }>();
  return {
    made,
    settle() {
      last = undefined;
    },
    of(key, parts, make) {
      const known = made.get(key) ?? last?.get(key);
      const isSame = known?.parts.length === parts.length && parts.every((part, index) => part === known.parts[index]);
      const entry = known && isSame ? known : { parts, value: make() };
      made.set(key, entry);
      return entry.value;
    },
  };
}
