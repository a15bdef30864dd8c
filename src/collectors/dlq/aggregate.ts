import { boundText, pathAddress } from '../../kit/text.ts';
import type { CallbackState, DlqEntry } from '../../model/message.ts';
import { OTHER } from '../cap.ts';
import type { Routes } from '../routes.ts';
import { createEnds, type Ends } from './ends.ts';
import { addToGroups, createGroups, type Groups, NONE, type Place } from './groups.ts';

type ValueOf = (entry: DlqEntry, place: Place) => string | undefined;

export const DIMENSIONS = {
  urlHost: (_, { address }) => address?.host,
  route: ({ url }, { address, routes }) => (url === undefined ? undefined : routes.ofPath(address?.pathname ?? '')),
  workflowUrl: ({ workflowUrl }) => (workflowUrl === undefined ? undefined : pathAddress(workflowUrl)),
  method: ({ method }) => method,
  state: ({ state }) => state?.toLowerCase(),
  topic: ({ topic }) => topic,
  queue: ({ queue }) => queue,
  schedule: ({ schedule }) => schedule,
  label: ({ labels }) => labels[0],
  responseStatus: ({ responseStatus }) => (responseStatus === undefined ? undefined : String(responseStatus)),
  api: ({ api }) => api,
  callbackState: ({ callbackState }) => callbackState,
} as const satisfies Readonly<Record<string, ValueOf>>;

export type Dimension = keyof typeof DIMENSIONS;

const LONGEST = 200;
/** Maximum number of distinct values; more would be a hostile service's. */
const MOST_VALUES = 10_000;

export interface Breakdown {
  readonly dimensions: readonly Dimension[];
  readonly routes: Routes;
  /** Whether kinds of dead letters are told apart, and the entries at both ends are shown. */
  readonly isDetailed: boolean;
}

/** What is added up over the entries of a selection. Times: milliseconds since the Unix epoch. */
export interface Aggregate {
  oldest: number | undefined;
  newest: number | undefined;
  oldestEntered: number | undefined;
  /** When the last of them entered, as far as they tell, the earliest first. */
  readonly lastEntered: number[];
  readonly values: ReadonlyMap<Dimension, Map<string, number>>;
  readonly groups: Groups | undefined;
  readonly ends: Ends | undefined;
  readonly routes: Routes;
  readonly callbacks: Map<CallbackState, number>;
}

export function createAggregate({ dimensions, routes, isDetailed }: Breakdown): Aggregate {
  return {
    oldest: undefined,
    newest: undefined,
    oldestEntered: undefined,
    lastEntered: [],
    values: new Map(dimensions.map(dimension => [dimension, new Map()])),
    groups: isDetailed ? createGroups() : undefined,
    ends: isDetailed ? createEnds() : undefined,
    routes,
    callbacks: new Map(),
  };
}

const least = (a: number | undefined, b: number | undefined) =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
const most = (a: number | undefined, b: number | undefined) =>
  a === undefined || b === undefined ? (a ?? b) : Math.max(a, b);

/** How many of the last are remembered: half a page. */
export const LAST = 50;

function insertLast(times: number[], time: number): void {
  const [first = 0] = times;
  if (times.length === LAST && time <= first) return;
  const before = times.findLastIndex(other => other <= time);
  times.splice(before + 1, 0, time);
  if (times.length > LAST) times.shift();
}

/** Adds entries of which nothing could be read but that they are there; fewer than none takes them away. */
export function addUnreadable(aggregate: Aggregate, entries: number): void {
  for (const counts of aggregate.values.values()) counts.set(NONE, (counts.get(NONE) ?? 0) + entries);
  if (aggregate.groups) aggregate.groups.ungrouped += entries;
}

/** Adds an entry. `firstSeen` stands for the time at which it came into the queue, where the entry does not tell. */
export function addTo(aggregate: Aggregate, entry: DlqEntry, firstSeen: number): void {
  const entered = entry.enteredAt ?? firstSeen;
  aggregate.oldest = least(aggregate.oldest, entry.createdAt);
  aggregate.newest = most(aggregate.newest, entry.createdAt);
  aggregate.oldestEntered = least(aggregate.oldestEntered, entered);
  aggregate.ends?.add(entry, entered);
  if (entry.enteredAt !== undefined) insertLast(aggregate.lastEntered, entry.enteredAt);
  const { values, groups, routes } = aggregate;
  const hasPlace = entry.url !== undefined && (groups !== undefined || values.size > 0);
  const place = { address: (hasPlace && URL.parse(entry.url ?? '')) || undefined, routes };
  for (const [dimension, counts] of values) {
    const read: ValueOf = DIMENSIONS[dimension];
    const value = boundText(read(entry, place) ?? NONE, LONGEST);
    const key = counts.size < MOST_VALUES || counts.has(value) ? value : OTHER;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  if (groups) addToGroups(groups, entry, place);
  const { callbackState } = entry;
  if (callbackState) aggregate.callbacks.set(callbackState, (aggregate.callbacks.get(callbackState) ?? 0) + 1);
}
