import { first, riseOf } from '../history/points.ts';
import type { Point } from '../model/history.ts';
import { type AlertCondition, isCertain, type Selector, selectorOf, selectorsOf } from './options.ts';
import type { Evaluation } from './state.ts';

/** One series of an account, without the label `account`. */
export interface Series {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  /** Minimum time for which the data of a stale round has been stale (ms), across restarts. */
  readonly staleFor?: number | undefined;
}

/** A window that ends now. */
export interface PastWindow {
  /** Milliseconds since the Unix epoch. */
  readonly start: number;
  /** Returns the recorded values of a series and its current one. */
  points(series: Series): readonly Point[];
}

export interface AlertFacts {
  /** Returns the selected series, or undefined while their data is stale, withdrawn, or not read yet. */
  series(selector: Selector): readonly Series[] | undefined;
  /** Whether `series` is incomplete, because rows or a selected filter could not be read. */
  isPartial(selector: Selector): boolean;
  /** Whether a metric about rounds may be outdated, because a selected round has not completed since the last restart. */
  isInconclusive(selector: Selector, labels?: Readonly<Record<string, string>>): boolean;
}

export interface AlertEvidence extends AlertFacts {
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  /** Returns the window of the last `over` milliseconds; undefined if there is no data for its start. */
  window(selector: Selector, over: number): PastWindow | undefined;
}

/** A series for which a condition holds, with its value in base units. */
export interface ActiveSeries extends Pick<Series, 'labels' | 'value'>, Pick<Evaluation, 'since' | 'heldFor'> {
  /** Annotations in addition to the rule's. */
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Result of a condition: the series for which it holds. For all other series, it is false or, with `atLeast`, unknown. */
export type ConditionResult = 'unknown' | readonly ActiveSeries[] | { readonly atLeast: readonly ActiveSeries[] };

/**
 * Returns the total increase of the selected counters; undefined if it is unknown. Series added within the window count from their
 * first value.
 */
function increase(selector: Selector, over: number, evidence: AlertEvidence): number | undefined {
  const series = evidence.series(selector);
  const window = evidence.window(selector, over);
  const rises = window && series?.map(each => riseOf(window.points(each)));
  return rises?.reduce((sum, each) => (sum === undefined || each === undefined ? undefined : sum + each), 0);
}

function evaluateRatio(
  condition: Extract<AlertCondition, { kind: 'ratio' }>,
  evidence: AlertEvidence,
): 'unknown' | readonly ActiveSeries[] {
  const { part, whole, over, above, atLeast } = condition;
  const [rise, of] = [increase(part, over, evidence), increase(whole, over, evidence)];
  if (rise === undefined || of === undefined) return 'unknown';
  return of >= atLeast && rise / of > above ? [{ labels: {}, value: rise / of }] : [];
}

/**
 * Evaluates a condition for one account. The result is unknown if data or history is missing. If rows are unreadable, the
 * result contains only series for which the condition certainly holds.
 */
export function evaluateCondition(condition: AlertCondition, evidence: AlertEvidence): ConditionResult {
  const result = evaluateComplete(condition, evidence);
  if (result === 'unknown' || !selectorsOf(condition).some(each => evidence.isPartial(each))) return result;
  return isCertain(condition) ? { atLeast: result } : 'unknown';
}

function evaluateComplete(condition: AlertCondition, evidence: AlertEvidence): 'unknown' | readonly ActiveSeries[] {
  if (condition.kind === 'ratio') return evaluateRatio(condition, evidence);
  const selector = selectorOf(condition);
  const series = evidence.series(selector);
  if (!series) return 'unknown';
  const where = (holds: (value: number) => boolean, found: readonly ActiveSeries[] = series) =>
    found.filter(({ value }) => holds(value)).map(({ labels, value }) => ({ labels, value }));
  switch (condition.kind) {
    case 'above':
      return where(value => value > condition.value);
    case 'below':
      return where(value => value < condition.value);
    case 'stale':
      return series.flatMap(({ labels, value, staleFor }) => (value > 0 ? [{ labels, value, heldFor: staleFor }] : []));
    case 'age': {
      const ages = series.map(({ labels, value }) => ({ labels, value: evidence.now / 1000 - value }));
      return where(age => age > condition.above / 1000, ages);
    }
    case 'growth': {
      const window = evidence.window(selector, condition.over);
      if (!window) return 'unknown';
      // Series added within the window have no growth.
      const grown = series.flatMap(each => {
        const before = first(window.points(each), window.start);
        return before === undefined ? [] : { labels: each.labels, value: each.value - before };
      });
      return where(growth => growth >= condition.atLeast, grown);
    }
  }
}
