import { recordOf } from '../../kit/record.ts';
import { type CallbackFacts, isSuspected } from '../../model/callback.ts';
import { CALLBACK_STATES, type CallbackEnd, type CallbackState } from '../../model/message.ts';
import { largestOf, OTHER } from '../cap.ts';
import type { Dimension } from './aggregate.ts';
import type { DeadLetter } from './ends.ts';
import type { DeadLetterKind } from './kinds.ts';
import type { DlqMemory } from './memory.ts';
import { type LeftReason, type Selection, sizeOf } from './selection.ts';

/** Times are in milliseconds since the Unix epoch. */
export interface SelectionFacts {
  /** Identifies the name and `match`. */
  readonly key: string;
  readonly messages: number | undefined;
  readonly oldestEntered: number | undefined;
  readonly entered: number;
  readonly left: Readonly<Record<LeftReason, number>>;
  /** Whether every row of the filter contains all fields of its `match` and matches. */
  readonly isProven: boolean;
  readonly isContradicted: boolean;
}

export interface KindFacts {
  /** Number of kinds; undefined before the first complete walk of this process. */
  readonly count: number | undefined;
  readonly largest: readonly Readonly<DeadLetterKind>[];
  readonly others: number;
  readonly appeared: number;
}

/** Facts about one account's queue. Immutable. */
export interface DlqFacts {
  readonly selections: ReadonlyMap<string, SelectionFacts>;
  readonly breakdowns: ReadonlyMap<Dimension, ReadonlyMap<string, number>>;
  readonly beyondCap: ReadonlyMap<Dimension, number>;
  readonly callbacks: Readonly<Record<CallbackState, number>> | undefined;
  readonly kinds: KindFacts;
  /** Newest entries, the latest first. Empty before the first complete walk of this process. */
  readonly newest: readonly DeadLetter[];
  readonly longest: readonly DeadLetter[];
  readonly foundByRescan: number;
  /** Entries counted as new by host, and the number of hosts beyond the cap. Undefined without the breakdown by host. */
  readonly enteredByHost: { readonly counts: ReadonlyMap<string, number>; readonly beyondCap: number } | undefined;
  readonly tracked: CallbackFacts | undefined;
  /** Number of callbacks in progress for longer than their retries can take; undefined if no states are reported. */
  readonly suspected: number | undefined;
  readonly endedCallbacks: Readonly<Record<CallbackEnd, number>>;
  /** First sighting of the callback that has been in progress longest (ms since the Unix epoch), if any. */
  readonly oldestInProgress: number | undefined;
}

/** Returns the named filters, except those contradicted by their rows. */
export const shownFilters = (selections: DlqFacts['selections']): ReadonlyMap<string, SelectionFacts> =>
  new Map([...selections].filter(([name, { isContradicted }]) => name !== 'all' && !isContradicted));

function oldestInProgress(tracked: CallbackFacts | undefined): number | undefined {
  const inProgress = tracked?.sightings.filter(({ entry }) => entry.callbackState === 'in_progress') ?? [];
  return inProgress.length === 0 ? undefined : Math.min(...inProgress.map(({ firstSeenAt }) => firstSeenAt));
}

function factsOf(selection: Selection): SelectionFacts {
  const { key, shown, entered, left, isProven, isContradicted } = selection;
  return {
    key,
    isProven,
    isContradicted,
    messages: shown && sizeOf(selection),
    oldestEntered: shown?.oldestEntered,
    entered,
    left: { ...left },
  };
}

/** Returns the counts of a dimension's shown values, and the sum of the others as `OTHER`. */
function cut(counts: ReadonlyMap<string, number>, shown: ReadonlySet<string>): Map<string, number> {
  const kept = new Map([...counts].filter(([value]) => shown.has(value)));
  let others = 0;
  for (const [value, count] of counts) if (!shown.has(value)) others += count;
  return others > 0 ? kept.set(OTHER, others) : kept;
}

/** Maximum number of kinds with a series, and so in each sample of the history: the largest ones. */
export const MAX_KINDS_SHOWN = 50;

function kindFacts({ all, kinds }: DlqMemory): KindFacts {
  const found = all.shown?.kinds;
  const each = [...(found?.byKey.values() ?? [])].sort((a, b) => b.messages - a.messages || (a.id < b.id ? -1 : 1));
  return {
    count: found && each.length,
    largest: each.slice(0, MAX_KINDS_SHOWN).map(kind => ({ ...kind })),
    others: each.slice(MAX_KINDS_SHOWN).reduce((sum, { messages }) => sum + messages, found?.ungrouped ?? 0),
    appeared: kinds.appeared(),
  };
}

function enteredByHost({ all: { breakdown, hosts } }: DlqMemory): DlqFacts['enteredByHost'] {
  const isShown = breakdown.dimensions.includes('urlHost');
  return hosts && isShown ? { counts: hosts.counts(), beyondCap: hosts.beyond() } : undefined;
}

/** `maxValues`: maximum number of shown values of a breakdown. */
export function toFacts(memory: DlqMemory, maxValues: number): DlqFacts {
  const { all, filters, foundByRescan } = memory;
  const values = [...(all.shown?.values ?? [])].map(([dimension, counts]) => {
    // A value named `__other__` is merged into the remainder, because the two would be indistinguishable.
    const sizes = [...counts].filter(([value]) => value !== OTHER);
    return [dimension, counts, largestOf(sizes, maxValues)] as const;
  });
  const counts = all.shown?.callbacks;
  const tracked = memory.callbacks.facts();
  return {
    selections: new Map([all, ...filters].map(selection => [selection.name, factsOf(selection)])),
    breakdowns: new Map(values.map(([dimension, counts, shown]) => [dimension, cut(counts, shown)])),
    beyondCap: new Map(values.map(([dimension, counts, shown]) => [dimension, Math.max(0, counts.size - shown.size)])),
    callbacks: counts && counts.size > 0 ? recordOf(CALLBACK_STATES, state => counts.get(state) ?? 0) : undefined,
    kinds: kindFacts(memory),
    newest: all.shown?.ends?.newest() ?? [],
    longest: all.shown?.ends?.longest() ?? [],
    foundByRescan,
    enteredByHost: enteredByHost(memory),
    tracked,
    suspected: tracked?.reportsStates ? tracked.sightings.filter(isSuspected).length : undefined,
    endedCallbacks: memory.callbacks.ended(),
    oldestInProgress: oldestInProgress(tracked),
  };
}
