import type { Family, FamilyType, Sample, Source } from '../metrics/family.ts';
import type { Visible } from '../scheduler/board.ts';

/** The declaration of a metric family about the facts of a collector. */
export interface FactFamily<Facts, L extends string = string> extends Family<L> {
  /** Possible values of the labels that have a fixed set of values. */
  readonly values?: Readonly<Partial<Record<NoInfer<L>, readonly string[]>>>;
  /** Whether a gauge describes counters. Like counters, it shows committed facts and is never withdrawn. */
  readonly isLasting?: boolean;
  /** Returns all samples, or the value of a family without labels. Without samples, the family is not exposed. */
  pick(facts: Facts): readonly Sample<NoInfer<L>>[] | number | undefined;
}

type Declaration<Facts, L extends string> = Omit<FactFamily<Facts, L>, 'type' | 'labels'> & {
  /** Label names in output order. Default: none. */
  readonly labels?: readonly L[];
};

/** Returns functions that declare the metric families of a collector. */
export function familiesOf<Facts>() {
  const define =
    (type: FamilyType) =>
    <const L extends string = never>(family: Declaration<Facts, L>): FactFamily<Facts, L> => ({
      labels: [],
      ...family,
      type,
    });
  return { gauge: define('gauge'), counter: define('counter'), histogram: define('histogram') };
}

export type FactFamilies<Facts> = Readonly<Record<string, FactFamily<Facts>>>;

export function samplesOf<Facts>(family: FactFamily<Facts>, facts: Facts): readonly Sample[] {
  const picked = family.pick(facts) ?? [];
  return typeof picked === 'number' ? [{ labels: {}, value: picked }] : picked;
}

/** Creates the source of a collector's samples. Gauges of old facts are withdrawn; counters stay. */
export const collectorSource = <Facts>(
  account: string,
  { families }: { readonly families: FactFamilies<Facts> },
  shown: () => Visible<Facts>,
): Source => ({
  account,
  families: Object.values(families),
  revision: shown,
  samples() {
    const { now, committed } = shown();
    return new Map(
      Object.values(families).map(family => {
        const facts = family.type === 'gauge' && !family.isLasting ? now : committed;
        return [family.name, facts === undefined ? [] : samplesOf(family, facts)];
      }),
    );
  },
});

/** Returns a list with the sample of a series; empty if the value is undefined. */
export const optionalSample = <L extends string>(
  labels: Sample<L>['labels'],
  value: number | undefined,
): Sample<L>[] => (value === undefined ? [] : [{ labels, value }]);

export const toSeconds = (ms: number | undefined) => (ms === undefined ? undefined : ms / 1000);
