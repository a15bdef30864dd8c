import { hash64 } from '../../kit/hash.ts';
import type { Change } from '../../model/change.ts';
import { type FlowControlEntry, KEY_LIMITS, type KeyLimit } from '../../model/message.ts';

export interface LimitChange {
  readonly from: number;
  readonly to: number;
  /** Time of the first read with the new value (ms since the Unix epoch). */
  readonly at: number;
}

/** A limit as last reported, and the number of changes seen so far. */
export interface TrackedLimit {
  readonly value: number;
  readonly changes: number;
  readonly last?: LimitChange | undefined;
}

export type KeyLimits = Readonly<Partial<Record<KeyLimit, TrackedLimit>>>;

/** Limits by key, including unlisted keys, which may return. */
export type TrackedLimits = ReadonlyMap<string, KeyLimits>;

/** Maximum number of keys with tracked limits. Beyond it, unlisted keys are discarded. */
const MAX_TRACKED = 10_000;

const PREFIX = 'limits/';
const rowKey = (key: string) => PREFIX + hash64(key).toString(16);

export function restoreLimits(rows: ReadonlyMap<string, string>): TrackedLimits {
  const stored = [...rows].flatMap(([name, value]) => (name.startsWith(PREFIX) ? [value] : []));
  return new Map(stored.map(value => JSON.parse(value) as [string, KeyLimits]));
}

/** Compares the limits of a key with its last reported ones. Returns `before` if no reported limit has changed. */
function compare(before: KeyLimits | undefined, entry: FlowControlEntry, at: number) {
  const { parallelismLimit: parallelism, rateLimit: rate, ratePeriodSeconds: period } = entry;
  const reported = { parallelism, rate, period };
  let after = before;
  for (const limit of KEY_LIMITS) {
    const [known, value] = [before?.[limit], reported[limit]];
    if (value === undefined || value === known?.value) continue;
    const last = known && { from: known.value, to: value, at };
    after = { ...after, [limit]: { value, changes: known ? known.changes + 1 : 0, last } };
  }
  return after;
}

type ReadKeys = ReadonlyMap<string, unknown>;

/**
 * Adds reads of keys that were made at `at`. `keys`: keys from the previous reads; `readFrom`: `keys` at the start of this read.
 * Skips a key that another read has updated since then, because this read may be older.
 */
export function followLimits(
  { limits: before, keys }: { readonly limits: TrackedLimits; readonly keys: ReadKeys },
  read: readonly FlowControlEntry[],
  at: number,
  readFrom: ReadKeys,
): { readonly limits: TrackedLimits; readonly changes: readonly Change[] } {
  const limits = new Map(before);
  const changes: Change[] = [];
  for (const entry of read) {
    const { key } = entry;
    if (keys.get(key) !== readFrom.get(key)) continue;
    const known = before.get(key);
    const compared = compare(known, entry, at);
    if (compared === undefined || compared === known) continue;
    limits.set(key, compared);
    changes.push({ key: rowKey(key), value: JSON.stringify([key, compared]) });
  }
  if (changes.length === 0) return { limits: before, changes };
  const listed = new Set(read.map(({ key }) => key));
  for (const key of limits.keys()) {
    if (limits.size <= MAX_TRACKED) break;
    if (listed.has(key) || keys.has(key)) continue;
    limits.delete(key);
    changes.push({ key: rowKey(key), value: null });
  }
  return { limits, changes };
}

/** Selects at most `most` keys to show: listed keys, then changed keys, because their counters must not vanish. */
export function shownLimits(limits: TrackedLimits, isListed: (key: string) => boolean, most: number): TrackedLimits {
  const hasChanged = (key: KeyLimits) => KEY_LIMITS.some(limit => (key[limit]?.changes ?? 0) > 0);
  const listed = [...limits].filter(([key]) => isListed(key));
  const changed = [...limits].filter(([key, each]) => !isListed(key) && hasChanged(each));
  return new Map([...listed, ...changed].slice(0, most));
}

export const changeSamples = (limits: TrackedLimits) =>
  [...limits].flatMap(([key, tracked]) =>
    KEY_LIMITS.flatMap(limit => {
      const value = tracked[limit]?.changes;
      return value === undefined ? [] : { labels: { flow_control_key: key, limit }, value };
    }),
  );
