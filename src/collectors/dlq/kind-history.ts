import { hashedId } from '../../kit/hash.ts';
import type { Change } from '../../model/change.ts';
import type { DeadLetterKinds } from './kinds.ts';

/** Known kinds of dead letters, across restarts. */
export type KindHistory = ReturnType<typeof createKindHistory>;

/** Maximum number of stored kinds. Beyond it, the kinds not seen for longest are evicted and count as new if they reappear. */
const MAX_KNOWN = 10_000;
/** Version of the grouping rule. Increment it when the ids of kinds change, or all kinds would count as new. */
const RULE = 1;

/** Key of the row of counters, and prefix of the kinds' keys. */
const COUNTS = 'groups';
const KEYS = `${COUNTS}/`;

export const isKindRow = (key: string) => key === COUNTS || key.startsWith(KEYS);

interface StoredCounts {
  readonly appeared: number;
  readonly rule: string;
}

/**
 * Creates the history of kinds. `routes`: path patterns, which are part of the grouping rule; `stored`: the committed rows from
 * `drainChanges`.
 */
export function createKindHistory(routes: readonly string[], stored: ReadonlyMap<string, string> = new Map()) {
  const rule = hashedId([RULE, ...routes], 16);
  const row = stored.get(COUNTS);
  const before = row === undefined ? undefined : (JSON.parse(row) as StoredCounts);
  let appeared = before?.appeared ?? 0;
  /** Whether kinds grouped by this rule are stored. Only then do unknown kinds count as new. */
  let hasBegun = before?.rule === rule;
  const changes = new Map<string, string | null>();
  /** In the order in which they were last seen. */
  const known = new Set<string>();
  for (const key of stored.keys()) {
    if (!key.startsWith(KEYS)) continue;
    if (hasBegun) known.add(key.slice(KEYS.length));
    else changes.set(key, null);
  }

  return {
    /** Number of kinds seen for the first time. */
    get appeared(): number {
      return appeared;
    },
    /** Compares the listed kinds with the known ones. The first read counts no kinds as new. */
    update({ byKey }: DeadLetterKinds): void {
      for (const { id } of byKey.values()) {
        const isKnown = known.delete(id);
        known.add(id);
        if (isKnown) continue;
        if (hasBegun) appeared += 1;
        changes.set(KEYS + id, '1');
      }
      for (const id of [...known].slice(0, Math.max(0, known.size - MAX_KNOWN))) {
        known.delete(id);
        changes.set(KEYS + id, null);
      }
      if (changes.size > 0 || !hasBegun) changes.set(COUNTS, JSON.stringify({ appeared, rule } satisfies StoredCounts));
      hasBegun = true;
    },
    drainChanges(): Change[] {
      const rows = [...changes].map(([key, value]) => ({ key, value }));
      changes.clear();
      return rows;
    },
  };
}
