import { hashedId } from '../../kit/hash.ts';
import type { Change } from '../../model/change.ts';
import type { Groups } from './groups.ts';

/** Which kinds of dead letters there were, across restarts. */
export type GroupHistory = ReturnType<typeof createGroupHistory>;

/** A kind of which there was no entry for so long, and is one again, has returned. Milliseconds. */
const GONE_FOR = 86_400_000;
/** Kinds that are remembered. Beyond that, the one that has been gone longest is forgotten, and would be new again. */
const MOST_KNOWN = 10_000;
/** What makes a kind another one; with another rule all would be new. */
const RULE = 1;

/** Key of the row of counters, and the beginning of the keys of kinds. */
const COUNTS = 'groups';
const KEYS = `${COUNTS}/`;

export const isGroupRow = (key: string) => key === COUNTS || key.startsWith(KEYS);

interface StoredCounts {
  readonly appeared: number;
  readonly returned: number;
  readonly since?: number | undefined;
  readonly rule: string;
}

const THERE = 0;

/** `routes`: what routes are named by; `stored`: the rows of `takeChanges` as they were last committed. */
export function createGroupHistory(routes: readonly string[], stored: ReadonlyMap<string, string> = new Map()) {
  const rule = hashedId([RULE, ...routes], 16);
  const row = stored.get(COUNTS);
  const before = row === undefined ? undefined : (JSON.parse(row) as StoredCounts);
  let { appeared, returned, since } = before ?? { appeared: 0, returned: 0 };
  /** Something was known by this rule: what is not known now is new. */
  let hasBegun = before?.rule === rule;
  const changes = new Map<string, string | null>();
  /** Since when each kind has been gone, milliseconds since the Unix epoch, or THERE; the longest gone first. */
  const known = new Map<string, number>();
  for (const [key, value] of stored) {
    if (!key.startsWith(KEYS)) continue;
    if (hasBegun) known.set(key.slice(KEYS.length), Number(value));
    else changes.set(key, null);
  }

  function put(id: string, goneSince: number): void {
    known.delete(id);
    known.set(id, goneSince);
    changes.set(KEYS + id, String(goneSince));
  }

  function forgetMost(): void {
    if (known.size <= MOST_KNOWN) return;
    const rank = ([, since]: readonly [string, number]) => (since === THERE ? Number.POSITIVE_INFINITY : since);
    const sorted = [...known].sort((a, b) => (rank(a) < rank(b) ? -1 : Number(rank(a) > rank(b))));
    for (const [id] of sorted.slice(0, known.size - MOST_KNOWN)) {
      known.delete(id);
      changes.set(KEYS + id, null);
    }
  }

  function meet(id: string, at: number): void {
    const goneSince = known.get(id);
    if (goneSince === THERE) return;
    if (hasBegun && goneSince === undefined) appeared += 1;
    if (goneSince !== undefined && at - goneSince >= GONE_FOR) returned += 1;
    put(id, THERE);
  }

  return {
    /** Kinds that had never been there, and those that were there again. Both only rise. */
    get appeared(): number {
      return appeared;
    },
    get returned(): number {
      return returned;
    },
    /** Since when these two count, milliseconds since the Unix epoch; undefined before the first complete walk. */
    get since(): number | undefined {
      return since;
    },
    /** Compares the kinds with those known. `at`: start of the read (ms since the Unix epoch). The first read counts nothing. */
    judge({ byKey, isFull }: Groups, at: number): void {
      if (!before) since ??= at;
      const there = new Set([...byKey.values()].map(({ id }) => id));
      for (const id of there) meet(id, at);
      // Of kinds beyond the bound, what is not told apart may be there all the same.
      if (!isFull) {
        for (const [id, goneSince] of [...known]) if (goneSince === THERE && !there.has(id)) put(id, at);
      }
      forgetMost();
      if (changes.size > 0 || !hasBegun) {
        changes.set(COUNTS, JSON.stringify({ appeared, returned, since, rule } satisfies StoredCounts));
      }
      hasBegun = true;
    },
    takeChanges(): Change[] {
      const rows = [...changes].map(([key, value]) => ({ key, value }));
      changes.clear();
      return rows;
    },
  };
}
