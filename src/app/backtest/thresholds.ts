import type { AlertCondition, AlertRule } from '../../alerts/options.ts';

/** Thresholds that are tried beside a rule's own, as multiples of it. */
const TIMES = [1.5, 2, 2.5, 3, 4, 5, 7.5, 10, 20, 50, 100];

/** To few digits: 0.3, not 0.30000000000000004. Multiples of whole numbers stay whole. */
const rounded = (value: number, isWhole: boolean) => (isWhole ? Math.round(value) : Number(value.toPrecision(3)));

/** The number that a condition compares with; undefined where it has none. */
export function thresholdOf(when: AlertCondition): number | undefined {
  switch (when.kind) {
    case 'above':
    case 'below':
      return when.value;
    case 'growth':
      return when.atLeast;
    case 'age':
    case 'ratio':
      return when.above;
    default:
      return undefined;
  }
}

/** The same condition with another number. */
export function withThreshold(when: AlertCondition, value: number): AlertCondition {
  switch (when.kind) {
    case 'above':
    case 'below':
      return { ...when, value };
    case 'growth':
      return { ...when, atLeast: value };
    case 'age':
    case 'ratio':
      return { ...when, above: value };
    default:
      return when;
  }
}

/** A rule with a threshold that fires less often. */
export interface Stricter {
  readonly threshold: number;
  readonly rule: AlertRule;
}

/** Ever less sensitive variants of a rule, each by a name of its own; none where no number can be multiplied. */
export function stricterOf(rule: AlertRule): readonly Stricter[] {
  const threshold = thresholdOf(rule.when);
  if (threshold === undefined || threshold < 0) return [];
  // From 0 on there is nothing to multiply: 1, 2, 5, 10 and so on.
  const values =
    threshold === 0
      ? [1, 2, 5, 10, 20, 50, 100, 1000]
      : TIMES.map(times =>
          rule.when.kind === 'below'
            ? rounded(threshold / times, false)
            : rounded(threshold * times, Number.isInteger(threshold)),
        );
  const possible = rule.when.kind === 'ratio' ? values.filter(value => value < 1) : values;
  // Multiples of small whole numbers are rounded to the same one.
  return [...new Set(possible)]
    .filter(value => value !== threshold)
    .map(value => ({
      threshold: value,
      rule: { ...rule, name: `${rule.name}@${value}`, when: withThreshold(rule.when, value) },
    }));
}

/** The condition with a threshold that every value passes: what it then lists are the values themselves. */
export const openTo = (when: AlertCondition): AlertCondition =>
  withThreshold(when, when.kind === 'below' ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY);
