import type { Clock } from '../kit/clock.ts';
import { createHistory, type History, type Known } from './history.ts';
import type { AlertEvidence, Series } from './judge.ts';
import { type AlertCondition, type Selector, selectorsOf } from './options.ts';

export interface AlertFacts {
  /** Series of a family as they are exposed; undefined while its data is stale, withdrawn, or not read yet. */
  series(metric: string): readonly Series[] | undefined;
  /** Whether unreadable rows, or a selected filter that cannot be read, are missing in that. */
  isPartial(selector: Selector): boolean;
  /** Whether a number about rounds may be outdated: after a restart it proves nothing until the round is complete. */
  isDoubtful(selector: Selector, labels?: Readonly<Record<string, string>>): boolean;
}

/**
 * What an earlier process knew of the selected series in the last `over` milliseconds and somewhat before, ascending; times are
 * on this process's monotonic clock. What was stale or partial then was not known. Rejects with StoreError.
 */
export type Past = (selector: Selector, over: number) => Promise<readonly Known[]>;

export const isSelected = ({ labels }: Selector, own: Readonly<Record<string, string>>): boolean =>
  Object.entries(labels).every(([label, values]) => label === 'account' || values.includes(own[label] ?? ''));

/** Series that conditions look back on, and how far. */
export function windowsOf(condition: AlertCondition): { readonly selector: Selector; readonly over: number }[] {
  return 'over' in condition ? selectorsOf(condition).map(selector => ({ selector, over: condition.over })) : [];
}

/** The histories of an account's series, as they are needed: they outlast the rules that look back on them. */
export type Histories = ReturnType<typeof createHistories>;

export function createHistories() {
  const known = new Map<string, History>();
  let fresh: { readonly selector: Selector; readonly over: number; readonly history: History }[] = [];
  return {
    of(selector: Selector, over: number): History {
      const id = windowId(selector, over);
      const before = known.get(id);
      const history = before ?? createHistory(over, selector.metric.endsWith('_total'));
      known.set(id, history);
      if (!before) fresh.push({ selector, over, history });
      return history;
    },
    /** Fills those that are new with what is known from before. Rejects with StoreError, and then tries no more. */
    async restore(past: Past): Promise<void> {
      const all = fresh;
      fresh = [];
      for (const { selector, over, history } of all) history.restore(await past(selector, over));
    },
    keep(conditions: readonly AlertCondition[]): void {
      const needed = new Set(conditions.flatMap(windowsOf).map(({ selector, over }) => windowId(selector, over)));
      for (const id of known.keys()) if (!needed.has(id)) known.delete(id);
    },
  };
}

const windowId = ({ metric, labels }: Selector, over: number) => JSON.stringify([metric, labels, over]);

/** What an account's facts say now, and the histories of those series that conditions look back on. */
export function createEvidence(
  conditions: readonly AlertCondition[],
  facts: AlertFacts,
  clock: Pick<Clock, 'now' | 'monotonic'>,
  histories = createHistories(),
): AlertEvidence & {
  /** Takes what is known now into the histories: once before each evaluation. */
  record(): void;
} {
  const windows = new Map<string, { readonly selector: Selector; readonly history: History }>();
  for (const { selector, over } of conditions.flatMap(windowsOf)) {
    windows.set(windowId(selector, over), { selector, history: histories.of(selector, over) });
  }

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
    record() {
      const at = clock.monotonic();
      for (const { selector, history } of windows.values()) {
        // What rose from a part to the whole did not grow.
        const known = facts.isPartial(selector) ? undefined : series(selector);
        history.record(at, known && new Map(known.map(({ key, value }) => [key, value])));
      }
    },
  };
}
