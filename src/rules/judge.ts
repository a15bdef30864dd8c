import { type AlertCondition, isCertain, type Selector, selectorOf, selectorsOf } from './options.ts';

/** One series of an account, without the label `account`. `key` tells it from the others of its family. */
export interface Series {
  readonly key: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  /** Of a round whose data is stale: for how many milliseconds it is known to have been, restarts included. */
  readonly staleFor?: number | undefined;
}

export interface FirstValue {
  readonly value: number;
  readonly isAtStart: boolean;
}

/** Data that conditions are evaluated on. Times: milliseconds since the Unix epoch. */
export interface AlertEvidence {
  readonly now: number;
  /** Undefined while the data is stale, withdrawn, or not read yet. */
  series(selector: Selector): readonly Series[] | undefined;
  /** Whether rows that could not be read are missing in what `series` gives. Default: none are. */
  isPartial?(selector: Selector): boolean;
  /** First values of the last `over` milliseconds, by key; undefined while they are not known. */
  firsts(selector: Selector, over: number): ReadonlyMap<string, FirstValue> | undefined;
}

/** A series for which a condition holds, with its value, in base units. */
export interface Holding {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
  /** Texts of the alert, in addition to those of the rule. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** For how many milliseconds it has held at least, where that is known from elsewhere than earlier judgements. */
  readonly heldFor?: number | undefined;
}

/** `unknown`, or all series of which it holds: of those that are not listed it does not, or with `atLeast` nothing is known. */
export type AlertJudgement = 'unknown' | readonly Holding[] | { readonly atLeast: readonly Holding[] };

/** How much the selected counters rose together. A series that came within the window counts from its first value on. */
function increase(selector: Selector, over: number, evidence: AlertEvidence): number | undefined {
  const series = evidence.series(selector);
  const firsts = evidence.firsts(selector, over);
  if (!series || !firsts) return undefined;
  return series.reduce((sum, { key, value }) => sum + value - (firsts.get(key)?.value ?? value), 0);
}

function judgeRatio(
  condition: Extract<AlertCondition, { kind: 'ratio' }>,
  evidence: AlertEvidence,
): 'unknown' | readonly Holding[] {
  const { part, whole, over, above, atLeast } = condition;
  const [rise, of] = [increase(part, over, evidence), increase(whole, over, evidence)];
  if (rise === undefined || of === undefined) return 'unknown';
  return of >= atLeast && rise / of > above ? [{ labels: {}, value: rise / of }] : [];
}

/** Evaluates a condition for one account. Missing data or history makes it unknown, unreadable rows only a negative result. */
export function judgeAlert(condition: AlertCondition, evidence: AlertEvidence): AlertJudgement {
  const judged = judgeWhole(condition, evidence);
  if (judged === 'unknown' || !selectorsOf(condition).some(each => evidence.isPartial?.(each))) return judged;
  return isCertain(condition) ? { atLeast: judged } : 'unknown';
}

function judgeWhole(condition: AlertCondition, evidence: AlertEvidence): 'unknown' | readonly Holding[] {
  if (condition.kind === 'ratio') return judgeRatio(condition, evidence);
  const selector = selectorOf(condition);
  const series = evidence.series(selector);
  if (!series) return 'unknown';
  const where = (holds: (value: number) => boolean, found: readonly Holding[] = series) =>
    found.filter(({ value }) => holds(value)).map(({ labels, value }) => ({ labels, value }));
  switch (condition.kind) {
    case 'above':
      return where(value => value > condition.value);
    case 'below':
      return where(value => value < condition.value);
    case 'stale':
      return series.flatMap(({ labels, value, staleFor }) => (value > 0 ? [{ labels, value, heldFor: staleFor }] : []));
    case 'absent':
      return series.length === 0 ? [{ labels: {}, value: 1 }] : [];
    case 'age': {
      const ages = series.map(({ labels, value }) => ({ labels, value: evidence.now / 1000 - value }));
      return where(age => age > condition.above / 1000, ages);
    }
    case 'growth': {
      const firsts = evidence.firsts(selector, condition.over);
      if (!firsts) return 'unknown';
      // What was not there when the window began has not grown in it.
      const grown = series.flatMap(({ key, labels, value }) => {
        const first = firsts.get(key);
        return first?.isAtStart ? [{ labels, value: value - first.value }] : [];
      });
      return where(growth => growth >= condition.atLeast, grown);
    }
  }
}
