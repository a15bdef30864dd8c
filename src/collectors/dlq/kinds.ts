import { hashedId } from '../../kit/hash.ts';
import { boundText, parseUrl } from '../../kit/text.ts';
import type { Change } from '../../model/change.ts';
import type { DlqEntry } from '../../model/message.ts';
import { type Routes, UNMATCHED } from '../routes.ts';

export const NO_VALUE = '__none__';

/** Dead letters with the same host, route, status and error class. */
export interface DeadLetterKind {
  readonly id: string;
  readonly urlHost: string;
  /** Pattern that the path matches, else the path's shape. */
  readonly route: string;
  readonly responseStatus: string;
  messages: number;
  readonly sample: string | undefined;
}

export interface DeadLetterKinds {
  readonly byKey: Map<string, DeadLetterKind>;
  /** Unreadable entries, entries with a possibly unreadable status, and entries of kinds beyond `MAX_KINDS`. */
  ungrouped: number;
}

export interface RoutedAddress {
  /** Undefined if the entry has no URL or an invalid one. */
  readonly address: URL | undefined;
  readonly routes: Routes;
}

export const MAX_KINDS = 2000;
const MAX_LENGTH = 200;
const MAX_SAMPLE = 512;

export const createKinds = (): DeadLetterKinds => ({ byKey: new Map(), ungrouped: 0 });

const VERSION = /^v\d{1,3}$/i;
const MAX_SEGMENT = 40;
const MAX_SEGMENTS = 12;

/** Writes `*` for segments that probably differ between messages: long segments, and segments with a digit except versions. */
export function shapeOf(path: string): string {
  const segments = path.split('/', MAX_SEGMENTS);
  const shape = segments.map(segment =>
    segment.length > MAX_SEGMENT || (/\d/.test(segment) && !VERSION.test(segment)) ? '*' : segment,
  );
  return boundText(shape.join('/'), MAX_LENGTH);
}

function routeOf({ address, routes }: RoutedAddress): string {
  if (!address) return NO_VALUE;
  const route = routes.ofPath(address.pathname);
  return route === UNMATCHED ? shapeOf(address.pathname) : route;
}

function partsOf({ responseStatus, errorClass = '' }: DlqEntry, destination: RoutedAddress) {
  const urlHost = boundText(destination.address?.host || NO_VALUE, MAX_LENGTH);
  return [urlHost, routeOf(destination), String(responseStatus ?? NO_VALUE), errorClass] as const;
}

const kindId = (parts: readonly string[]) => hashedId(parts, 12);

export const kindOf = (entry: DlqEntry, routes: Routes): string =>
  kindId(partsOf(entry, { address: parseUrl(entry.url ?? '') ?? undefined, routes }));

export function addToKinds(kinds: DeadLetterKinds, entry: DlqEntry, destination: RoutedAddress): void {
  const { byKey } = kinds;
  const parts = partsOf(entry, destination);
  const [urlHost, route, responseStatus] = parts;
  const key = parts.join('\n');
  const known = byKey.get(key);
  if (known) known.messages += 1;
  else if (byKey.size === MAX_KINDS) kinds.ungrouped += 1;
  else {
    const { dlqId } = entry;
    const sample = dlqId !== undefined && dlqId.length <= MAX_SAMPLE ? dlqId : undefined;
    byKey.set(key, { id: kindId(parts), urlHost, route, responseStatus, messages: 1, sample });
  }
}

export type KindHistory = ReturnType<typeof createKindHistory>;

/** Maximum number of stored kinds. Above it, the least recently seen kinds are evicted. They count as new if they reappear. */
const MAX_KNOWN = 10_000;
/** Version of the grouping rule. Increment it when the ids of kinds change. Otherwise, all kinds would count as new. */
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
  /** Ids of the known kinds, the least recently seen first. */
  const known = new Set<string>();
  for (const key of stored.keys()) {
    if (!key.startsWith(KEYS)) continue;
    if (hasBegun) known.add(key.slice(KEYS.length));
    else changes.set(key, null);
  }

  return {
    appeared: (): number => appeared,
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
