import type { Clock } from '../kit/clock.ts';
import type { AlertEvidence, Series } from './evaluate-condition.ts';
import { createHistory, type History, type HistoryPoint } from './history.ts';
import { type AlertCondition, type Selector, selectorsOf } from './options.ts';

export interface AlertFacts {
  /** Returns the exposed series of a family, or undefined while its data is stale, withdrawn, or not read yet. */
  series(metric: string): readonly Series[] | undefined;
  /** Whether `series` is incomplete, because rows or a selected filter could not be read. */
  isPartial(selector: Selector): boolean;
  /** Whether a metric about rounds may be outdated, because a selected round has not completed since the last restart. */
  isInconclusive(selector: Selector, labels?: Readonly<Record<string, string>>): boolean;
}

/**
 * Reads recorded values of the selected series for at least the last `over` milliseconds, in ascending order. Times are on this
 * process's monotonic clock. Stale and partial data has no values. Rejects with StoreError.
 */
export type Past = (selector: Selector, over: number) => Promise<readonly HistoryPoint[]>;

export const isSelected = ({ labels }: Selector, own: Readonly<Record<string, string>>): boolean =>
  Object.entries(labels).every(([label, values]) => label === 'account' || values.includes(own[label] ?? ''));

/** Returns the series for which a condition needs a history, and the length of its window (ms). */
export function windowsOf(condition: AlertCondition): { readonly selector: Selector; readonly over: number }[] {
  return 'over' in condition ? selectorsOf(condition).map(selector => ({ selector, over: condition.over })) : [];
}

/** Histories of an account's series by window, kept when rules are reloaded. */
export type Histories = Map<string, History>;

const windowId = ({ metric, labels }: Selector, over: number) => JSON.stringify([metric, labels, over]);

/** Creates the evidence for an account's conditions. Drops histories that no condition needs. */
export function createAlertEvidence(
  conditions: readonly AlertCondition[],
  facts: AlertFacts,
  clock: Pick<Clock, 'now' | 'monotonic'>,
  histories: Histories = new Map(),
): AlertEvidence & {
  /** Fills new histories with recorded values, before the first `record`. Rejects with StoreError and does not try again. */
  restore(past: Past): Promise<void>;
  /** Adds the current values to the histories. Call once before each evaluation. */
  record(): void;
} {
  const windows = new Map(
    conditions.flatMap(windowsOf).map(({ selector, over }) => {
      const id = windowId(selector, over);
      const history = histories.get(id) ?? createHistory(over, selector.metric.endsWith('_total'));
      return [id, { selector, over, history }] as const;
    }),
  );
  for (const id of histories.keys()) if (!windows.has(id)) histories.delete(id);
  let fresh = [...windows].flatMap(([id, window]) => (histories.has(id) ? [] : window));

  function series(selector: Selector): readonly Series[] | undefined {
    return facts.series(selector.metric)?.filter(one => isSelected(selector, one.labels));
  }

  return {
    get now() {
      return clock.now();
    },
    series,
    isPartial: facts.isPartial,
    firsts: (selector, over) => windows.get(windowId(selector, over))?.history.firsts(clock.monotonic()),
    async restore(past) {
      const all = fresh;
      fresh = [];
      for (const { selector, over, history } of all) history.restore(await past(selector, over));
    },
    record() {
      const at = clock.monotonic();
      for (const [id, { selector, history }] of windows) {
        // The step from partial to complete data must not count as growth.
        const complete = facts.isPartial(selector) ? undefined : series(selector);
        history.record(at, complete && new Map(complete.map(({ key, value }) => [key, value])));
        histories.set(id, history);
      }
    },
  };
}
