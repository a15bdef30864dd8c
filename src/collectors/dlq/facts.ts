import type { CallbackFacts, CallbackSighting } from '../../model/callback.ts';
import type { CallbackState } from '../../model/message.ts';
import { chooseMembers, OTHER } from '../cap.ts';
import type { Dimension } from './aggregate.ts';
import type { Memory } from './memory.ts';
import { type LeftReason, type Selection, sizeOf } from './selection.ts';

/** Times: milliseconds since the Unix epoch, undefined where there is none. */
export interface SelectionFacts {
  /** Undefined until it was read completely by this process. */
  readonly messages: number | undefined;
  readonly oldest: number | undefined;
  readonly newest: number | undefined;
  readonly oldestEntered: number | undefined;
  readonly entered: number;
  readonly left: Readonly<Record<LeftReason, number>>;
}

/** What is shown of one account's queue. Never changed once made. */
export interface DlqFacts {
  readonly selections: ReadonlyMap<string, SelectionFacts>;
  readonly breakdowns: ReadonlyMap<Dimension, ReadonlyMap<string, number>>;
  /** Values beyond the cap. */
  readonly beyondCap: ReadonlyMap<Dimension, number>;
  /** Undefined when no entry has one. */
  readonly callbacks: ReadonlyMap<CallbackState, number> | undefined;
  readonly foundByRescan: number;
  /** Undefined before the first complete walk of this process. */
  readonly tracked: CallbackFacts | undefined;
  /** Failure callbacks that seem stuck; undefined where nobody says which do, or the service reports none. */
  readonly suspected: number | undefined;
}

/** Whether a failure callback seems stuck `at`, milliseconds since the Unix epoch. */
export type IsSuspected = (sighting: CallbackSighting, at: number) => boolean;

function countSuspected({ callbacks }: Memory, isSuspected: IsSuspected | undefined): number | undefined {
  const tracked = callbacks.facts();
  if (!tracked || !isSuspected || !callbacks.reportsStates()) return undefined;
  return tracked.sightings.filter(sighting => isSuspected(sighting, tracked.at)).length;
}

function factsOf(selection: Selection): SelectionFacts {
  const { shown, entered, left } = selection;
  return {
    messages: shown && sizeOf(selection),
    oldest: shown?.oldest,
    newest: shown?.newest,
    oldestEntered: shown?.oldestEntered,
    entered,
    left: { ...left },
  };
}

/** The largest values of a dimension and the sum of the others. */
function cut(counts: ReadonlyMap<string, number>, shown: ReadonlyMap<string, number>): Map<string, number> {
  const kept = new Map([...counts].filter(([value]) => shown.has(value)));
  let others = 0;
  for (const [value, count] of counts) if (!shown.has(value)) others += count;
  return others > 0 ? kept.set(OTHER, others) : kept;
}

/** `most`: values of a dimension that have series of their own. */
export function toFacts(memory: Memory, most: number, isSuspected: IsSuspected | undefined): DlqFacts {
  const { all, filters, foundByRescan } = memory;
  const values = all.shown?.values ?? new Map<Dimension, Map<string, number>>();
  const members = new Map(
    [...values].map(([dimension, counts]) => {
      // What bears the name of the remainder is part of it.
      const sizes = new Map([...counts].filter(([value]) => value !== OTHER));
      return [dimension, chooseMembers(sizes, memory.members.get(dimension) ?? new Map(), most)] as const;
    }),
  );
  memory.members = members;
  const breakdowns = new Map(
    [...values].map(([dimension, counts]) => [dimension, cut(counts, members.get(dimension) ?? new Map())]),
  );
  const beyondCap = new Map(
    [...values].map(([dimension, counts]) => [
      dimension,
      Math.max(0, counts.size - (members.get(dimension)?.size ?? 0)),
    ]),
  );
  return {
    selections: new Map([all, ...filters].map(selection => [selection.name, factsOf(selection)])),
    breakdowns,
    beyondCap,
    callbacks: all.shown && all.shown.callbacks.size > 0 ? new Map(all.shown.callbacks) : undefined,
    foundByRescan,
    tracked: memory.callbacks.facts(),
    suspected: countSuspected(memory, isSuspected),
  };
}
