import { first, upTo } from '../history/points.ts';
import { type Recorder, SHORT } from '../history/recorder.ts';
import { labelsOf, metricOf, seriesName } from '../history/series-name.ts';
import type { Clock } from '../kit/clock.ts';
import type { AlertEvidence, AlertFacts, Series } from './evaluate-condition.ts';
import { isSelected } from './facts.ts';
import { type AlertCondition, type Selector, selectorsOf } from './options.ts';

/** Maximum number of stored series per selector. More series are only in memory. */
const MAX_SERIES = 1000;

interface WindowOptions {
  readonly selector: Selector;
  /** Milliseconds. */
  readonly over: number;
}

/** History of an account, as windows use it. */
export type WindowHistory = Pick<Recorder, 'points' | 'note' | 'watch'>;

/** Returns the series for which a condition needs past values, and the length of its window. */
export const windowsOf = (condition: AlertCondition): readonly WindowOptions[] =>
  'over' in condition ? selectorsOf(condition).map(selector => ({ selector, over: condition.over })) : [];

/** Returns the name of a series that is 1 if the selected series were recorded, and 0 if their data was stale or incomplete. */
const markerOf = ({ metric, labels }: Selector) => `?${JSON.stringify([metric, labels])}`;

/**
 * Returns a function that selects the current values for windows, by series. `unstored`: series of selectors with too many of
 * them, which must not be stored.
 */
export function createSelection(windows: readonly WindowOptions[], facts: AlertFacts) {
  const selectors = new Map(windows.map(({ selector }) => [markerOf(selector), selector]));
  return () => {
    const values = new Map<string, number>();
    const [stored, unstored] = [new Set<string>(), new Set<string>()];
    for (const [marker, selector] of selectors) {
      const selected = facts.isPartial(selector) ? undefined : facts.series(selector);
      values.set(marker, selected ? 1 : 0);
      const names = (selected ?? []).map(({ labels, value }) => {
        const name = seriesName(selector.metric, labels);
        values.set(name, value);
        return name;
      });
      for (const name of [marker, ...names]) (names.length > MAX_SERIES ? unstored : stored).add(name);
    }
    return { values, unstored: unstored.difference(stored) };
  };
}

/** Creates the evidence for an account's conditions. Without `history`, windows are unknown. */
export function createAlertEvidence(
  conditions: readonly AlertCondition[],
  facts: AlertFacts,
  clock: Pick<Clock, 'now'>,
  history?: WindowHistory,
): AlertEvidence & {
  /** Prepares the history for the windows, once, and adds the current values of short ones. Rejects with StoreError. */
  prepare(): Promise<void>;
} {
  const windows = conditions.flatMap(windowsOf);
  const short = windows.filter(({ over }) => over < SHORT);
  const selection = createSelection(short, facts);
  let isPrepared = false;

  const markers = new Set(windows.map(({ selector }) => markerOf(selector)));
  const isWatched = (name: string) =>
    markers.has(name) ||
    windows.some(({ selector }) => metricOf(name) === selector.metric && isSelected(selector, labelsOf(name)));

  return {
    get now() {
      return clock.now();
    },
    ...facts,
    window(selector, over) {
      const now = clock.now();
      const start = now - over;
      if (!history || first(history.points(markerOf(selector), start, now), start) !== 1) return undefined;
      const points = ({ labels, value }: Series) =>
        upTo(history.points(seriesName(selector.metric, labels), start, now), { at: now, value });
      return { start, points };
    },
    async prepare() {
      if (short.length > 0) history?.note(selection().values);
      if (isPrepared) return;
      isPrepared = true;
      await history?.watch(Math.max(0, ...windows.map(({ over }) => over)), isWatched);
    },
  };
}
