/** A map that evicts its oldest entry above `limit`. Setting a key makes it the newest. */
export class BoundedMap<K, V> extends Map<K, V> {
  readonly #limit: number;

  constructor(limit: number) {
    super();
    if (!(limit >= 1)) throw new RangeError(`limit must be at least 1, got ${limit}`);
    this.#limit = limit;
  }

  override set(key: K, value: V): this {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.#limit) this.delete(this.keys().next().value as K);
    return this;
  }
}
