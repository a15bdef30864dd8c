import { boundText, parseUrl, pathAddress } from '../../kit/text.ts';
import type { CallbackState, DlqEntry } from '../../model/message.ts';
import { OTHER } from '../cap.ts';
import type { Routes } from '../routes.ts';
import { createEnds, type QueueEnds } from './ends.ts';
import { addToKinds, createKinds, type DeadLetterKinds, NO_VALUE, type RoutedAddress } from './kinds.ts';

/** Returns the value or the values of an entry; undefined or an empty list if missing. */
type ValueOf = (entry: DlqEntry, destination: RoutedAddress) => string | readonly string[] | undefined;

export const DIMENSIONS = {
  urlHost: (_, { address }) => address?.host || undefined,
  route: ({ url }, { address, routes }) => (url === undefined ? undefined : routes.ofPath(address?.pathname ?? '')),
  workflowUrl: ({ workflowUrl }) => (workflowUrl === undefined ? undefined : pathAddress(workflowUrl)),
  method: ({ method }) => method,
  state: ({ state }) => state?.toLowerCase(),
  topic: ({ topic }) => topic,
  queue: ({ queue }) => queue,
  schedule: ({ schedule }) => schedule,
  label: ({ labels }) => labels,
  responseStatus: ({ responseStatus }) => (responseStatus === undefined ? undefined : String(responseStatus)),
  api: ({ api }) => api,
  callbackState: ({ callbackState }) => callbackState,
} as const satisfies Readonly<Record<string, ValueOf>>;

export type Dimension = keyof typeof DIMENSIONS;

const MAX_LENGTH = 200;
/** Maximum number of distinct values counted per dimension. Only a hostile service lists more. */
export const MAX_VALUES = 10_000;

export interface Breakdown {
  readonly dimensions: readonly Dimension[];
  readonly routes: Routes;
  /** Whether to group dead letters and to keep the newest and the longest-queued ones. */
  readonly isDetailed: boolean;
}

/** Totals and extremes over the entries of a selection. Times are in milliseconds since the Unix epoch. */
export interface Aggregate {
  oldestEntered: number | undefined;
  /** The latest `MAX_LAST` reported entry times that were not in the future when read, in ascending order. */
  readonly lastEntered: number[];
  readonly values: ReadonlyMap<Dimension, Map<string, number>>;
  readonly kinds: DeadLetterKinds | undefined;
  readonly ends: QueueEnds | undefined;
  readonly routes: Routes;
  readonly callbacks: Map<CallbackState, number>;
}

export function createAggregate({ dimensions, routes, isDetailed }: Breakdown): Aggregate {
  return {
    oldestEntered: undefined,
    lastEntered: [],
    values: new Map(dimensions.map(dimension => [dimension, new Map()])),
    kinds: isDetailed ? createKinds() : undefined,
    ends: isDetailed ? createEnds() : undefined,
    routes,
    callbacks: new Map(),
  };
}

/** Maximum length of `lastEntered`: half a page. */
export const MAX_LAST = 50;

function insertLast(times: number[], time: number): void {
  const [first = 0] = times;
  if (times.length === MAX_LAST && time <= first) return;
  const before = times.findLastIndex(other => other <= time);
  times.splice(before + 1, 0, time);
  if (times.length > MAX_LAST) times.shift();
}

/** Counts unreadable rows as entries without values. A negative number subtracts rows. */
export function addUnreadable(aggregate: Aggregate, entries: number): void {
  for (const counts of aggregate.values.values()) counts.set(NO_VALUE, (counts.get(NO_VALUE) ?? 0) + entries);
  if (aggregate.kinds) aggregate.kinds.ungrouped += entries;
}

/** Adds an entry. `firstSeen` replaces a missing entry time; `now`: start of the round (ms since the Unix epoch). */
export function addTo(aggregate: Aggregate, entry: DlqEntry, firstSeen: number, now: number): void {
  const entered = entry.enteredAt ?? firstSeen;
  aggregate.oldestEntered = Math.min(aggregate.oldestEntered ?? entered, entered);
  aggregate.ends?.add(entry, entered);
  // A time in the future must not hide entries that follow it.
  if (entry.enteredAt !== undefined && entry.enteredAt <= now) insertLast(aggregate.lastEntered, entry.enteredAt);
  const { values, kinds, routes } = aggregate;
  const hasDestination = entry.url !== undefined && (kinds !== undefined || values.size > 0);
  const destination = { address: (hasDestination && parseUrl(entry.url ?? '')) || undefined, routes };
  for (const [dimension, counts] of values) {
    const read: ValueOf = DIMENSIONS[dimension];
    const found = read(entry, destination) ?? [];
    const all = typeof found === 'string' ? [found] : found;
    for (const each of all.length > 0 ? all : [NO_VALUE]) {
      const value = boundText(each, MAX_LENGTH);
      const key = counts.size < MAX_VALUES || counts.has(value) ? value : OTHER;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
  }
  // With an unreadable status, an entry would look like a new kind.
  const isUngrouped = entry.isIncomplete && entry.responseStatus === undefined;
  if (kinds && isUngrouped) kinds.ungrouped += 1;
  else if (kinds) addToKinds(kinds, entry, destination);
  const { callbackState } = entry;
  if (callbackState) aggregate.callbacks.set(callbackState, (aggregate.callbacks.get(callbackState) ?? 0) + 1);
}
