/** Counts situations, so that a test can require that they have occurred. */
export interface Tally {
  add(what: string, count?: number): void;
  get(what: string): number;
  /** Returns the sum of all counts with this prefix. */
  sum(prefix: string): number;
  text(): string;
}

export function createTally(): Tally {
  const counts = new Map<string, number>();
  return {
    add: (what, count = 1) => void counts.set(what, (counts.get(what) ?? 0) + count),
    get: what => counts.get(what) ?? 0,
    sum: prefix => [...counts].reduce((sum, [what, count]) => sum + (what.startsWith(prefix) ? count : 0), 0),
    text: () =>
      [...counts]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([what, count]) => `${String(count).padStart(12)}  ${what}`)
        .join('\n'),
  };
}
