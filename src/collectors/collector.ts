import type { z } from 'zod';
import type { Families, SamplesOf } from '../metrics/family.ts';
import type { Observation, RoundStep } from '../scheduler/runner.ts';
import type { Priority, Reader } from '../upstream/api.ts';

export type { Folded, Observation } from '../scheduler/runner.ts';

export interface ObserveContext<Memory, Walk> extends RoundStep<Memory, Walk> {
  readonly api: Reader;
}

export interface Cadence {
  readonly every: number;
  /** Requests of a round that finds nothing new: what it costs at least. */
  readonly requests: number;
  readonly priority: Priority;
  /** Missed intervals after which the data counts as stale, where `staleness.markAfter` is too patient. */
  readonly markAfter?: number;
  /** What it costs in a day, where rounds differ: told by one that was measured, of so many. */
  readonly perDay?: (one: Cost, rounds: number) => Cost;
}

export interface Cost {
  readonly requests: number;
  readonly bytes: number;
}

export type Rounds = Readonly<Record<string, Cadence>>;

/** What is always true of a collector, whatever account it watches. */
export interface CollectorKind<Facts = unknown, F extends Families = Families> {
  /** Label value `collector`, prefix of its metrics, name in logs. */
  readonly name: string;
  readonly families: F;
  /** Rounds that no gauge depends on: they may keep failing and nothing is withdrawn. */
  readonly auxiliary?: readonly string[];
  /** Keys of gauges that say something of its counters: they are shown as those are, of what is committed, and stay. */
  readonly lasting?: readonly string[];
  samples(facts: Facts): SamplesOf<F>;
}

/** A collector that has a section of its own in the configuration. */
export interface ConfiguredKind<Options = unknown, Facts = unknown, F extends Families = Families, Services = unknown>
  extends CollectorKind<Facts, F> {
  readonly configKey: string;
  readonly options: z.ZodType<Options & { readonly enabled: boolean }>;
  rounds(options: Options): Rounds;
  create(options: Options, services: Services): Collector<Facts>;
}

export const defineKind = <Options, Facts, F extends Families, Services>(
  kind: ConfiguredKind<Options, Facts, F, Services>,
) => kind;

/**
 * One kind of thing that is watched, for one account. It reads (`observe`, the only IO, which may throw), folds (`fold`)
 * and maps (`samples`, pure); timing, success, logging, catching and storing are the runner's.
 */
export interface Collector<Facts = unknown, Memory = unknown, Walk = unknown> extends CollectorKind<Facts> {
  readonly rounds: Rounds;
  /** Memory from the rows that were committed before this process. */
  restore(rows: ReadonlyMap<string, string>): Memory;
  /** What the memory says before the first round: of it only counters and histograms are shown. */
  recall?(memory: Memory): Facts;
  observe(context: ObserveContext<Memory, Walk>): Promise<Observation<Facts, Memory, Walk>>;
}

/** A collector as the runner drives it: each round reads at its own priority. */
export const withReader = <Facts, Memory, Walk>(
  collector: Collector<Facts, Memory, Walk>,
  at: (priority: Priority) => Reader,
) => ({
  ...collector,
  observe: (step: RoundStep<Memory, Walk>) =>
    collector.observe({ api: at(collector.rounds[step.round]?.priority ?? 'background'), ...step }),
});

/** An answer that can't be true, though every row of it could be read. */
export class Implausible extends Error {
  override readonly name = 'Implausible';
  readonly reason = 'invalid_response';
}

export const PAGES_A_STEP = 10;
