import { type CollectorKind, samplesOf } from '../../src/collectors/collector.ts';
import type { Sample } from '../../src/metrics/family.ts';

/** Returns the samples of all families of a collector, by the key of their family. */
export const samplesBy = <Facts, F extends CollectorKind<Facts>['families']>(
  { families }: { readonly families: F },
  facts: Facts,
) =>
  Object.fromEntries(
    Object.entries(families).map(([key, family]) => [key, samplesOf(family, facts)] as const),
  ) as unknown as Readonly<Record<keyof F, readonly Sample[]>>;
