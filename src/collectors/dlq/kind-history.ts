import { hashedId } from '../../kit/hash.ts';
import type { Change } from '../../model/change.ts';
import type { DeadLetterKinds } from './kinds.ts';

/** Known kinds of dead letters, across restarts. */
export type KindHistory = ReturnType<typeof createKindHistory>;

/** Minimum absence after which a kind counts as returned (ms). */
const RETURN_AFTER = 86_400_000;
/** Maximum number of stored kinds. Beyond it, the kinds absent longest are evicted and count as new if they reappear. */
const MAX_KNOWN = 10_000;
/** Version of the grouping rule. Increment it when the ids of kinds change, or all kinds would count as new. */
const RULE = 1;

/** Key of the row of counters, and prefix of the kinds' keys. */
const COUNTS = 'groups';
const KEYS = `${COUNTS}/`;

export const isKindRow = (key: string) => key === COUNTS || key.startsWith(KEYS);

interface StoredCounts {
  readonly appeared: number;
  readonly returned: number;
  readonly rule: string;
}

const PRESENT = 0;

/**
 * Creates the history of kinds. `routes`: path patterns, which are part of the grouping rule; `stored`: the committed rows from
 * `drainChanges`.
 */
export function createKindHistory(routes: readonly string[], stored: ReadonlyMap<string, string> = new Map()) {
  const rule = hashedId([RULE, ...routes], 16);
  const row = stored.get(COUNTS);
  const before = row === undefined ? undefined : (JSON.parse(row) as StoredCounts);
  let { appeared, returned } = before ?? { appeared: 0, returned: 0 };
  /** Whether kinds grouped by this rule are stored. Only then do unknown kinds count as new. */
  let hasBegun = before?.rule === rule;
  const changes = new Map<string, string | null>();
  /** Start of each kind's absence (ms since the Unix epoch), or PRESENT. */
  const known = new Map<string, number>();
  for (const [key, value] of stored) {
    if (!key.startsWith(KEYS)) continue;
    if (hasBegun) known.set(key.slice(KEYS.length), Number(value));
    else changes.set(key, null);
  }

  function put(id: string, absentSince: number): void {
    known.delete(id);
    known.set(id, absentSince);
    changes.set(KEYS + id, String(absentSince));
  }

  function evict(): void {
    if (known.size <= MAX_KNOWN) return;
    const rank = ([, since]: readonly [string, number]) => (since === PRESENT ? Number.POSITIVE_INFINITY : since);
    const sorted = [...known].sort((a, b) => (rank(a) < rank(b) ? -1 : Number(rank(a) > rank(b))));
    for (const [id] of sorted.slice(0, known.size - MAX_KNOWN)) {
      known.delete(id);
      changes.set(KEYS + id, null);
    }
  }

  function markPresent(id: string, at: number): void {
    const absentSince = known.get(id);
    if (absentSince === PRESENT) return;
    if (hasBegun && absentSince === undefined) appeared += 1;
    if (absentSince !== undefined && at - absentSince >= RETURN_AFTER) returned += 1;
    put(id, PRESENT);
  }

  return {
    /** Number of kinds seen for the first time. */
    get appeared(): number {
      return appeared;
    },
    /** Number of kinds seen again after an absence of at least `RETURN_AFTER`. */
    get returned(): number {
      return returned;
    },
    /**
     * Compares the listed kinds with the known ones. The first read counts no kinds as new. `at`: start of the read (ms since the
     * Unix epoch).
     */
    update({ byKey, isFull }: DeadLetterKinds, at: number): void {
      const present = new Set([...byKey.values()].map(({ id }) => id));
      for (const id of present) markPresent(id, at);
      // If the list of kinds is full, a missing kind may be among the ungrouped entries.
      if (!isFull) {
        for (const [id, absentSince] of [...known]) if (absentSince === PRESENT && !present.has(id)) put(id, at);
      }
      evict();
      if (changes.size > 0 || !hasBegun) {
        changes.set(COUNTS, JSON.stringify({ appeared, returned, rule } satisfies StoredCounts));
      }
      hasBegun = true;
    },
    drainChanges(): Change[] {
      const rows = [...changes].map(([key, value]) => ({ key, value }));
      changes.clear();
      return rows;
    },
  };
}
