import type { z } from 'zod';
import type { Families, SamplesOf } from '../metrics/family.ts';
import type { Reader } from '../upstream/api.ts';

/** A row that must survive: `null` deletes. Keys are the collector's own; the runner puts its name before them. */
export interface Row {
  readonly key: string;
  readonly value: string | null;
}

export interface ObserveContext<Options, Memory, Walk> {
  readonly api: Reader;
  readonly options: Options;
  readonly round: string;
  /** When this round began, milliseconds since the Unix epoch: the same in all its steps. */
  readonly now: number;
  /** What the last committed step left. */
  readonly memory: Memory;
  /** Where the step before this one stopped; undefined in a round's first step. Lost when the round fails. */
  readonly walk: Walk | undefined;
  readonly signal: AbortSignal;
}

export interface Observation<Facts, Memory, Walk> {
  /** The whole truth after a complete round; undefined while there is more to read. */
  readonly facts: Facts | undefined;
  readonly memory: Memory;
  /** Rows to commit before the facts are shown. */
  readonly changes: readonly Row[];
  /** Call again at once, with this. A step reads at most 10 pages, so that a backlog never starves others. */
  readonly more: Walk | undefined;
}

/**
 * One kind of thing that is watched. It reads (`observe`, the only IO, which may throw) and maps (`samples`, pure);
 * timing, success, logging, catching and storing are the runner's.
 */
export interface Collector<
  Options = unknown,
  Facts = unknown,
  Memory = unknown,
  Walk = unknown,
  F extends Families = Families,
> {
  /** Label value `collector`, prefix of its metrics, name in logs. */
  readonly name: string;
  /** Its key under `collect` in the configuration. */
  readonly configKey: string;
  readonly options: z.ZodType<Options & { enabled: boolean }>;
  readonly families: F;
  /** Its cadences: round name → milliseconds between two starts. */
  rounds(options: Options): Readonly<Record<string, number>>;
  /** Memory from the rows that were committed before this process. */
  restore(rows: ReadonlyMap<string, string>): Memory;
  observe(context: ObserveContext<Options, Memory, Walk>): Promise<Observation<Facts, Memory, Walk>>;
  samples(facts: Facts): SamplesOf<F>;
}

/** Spells out a collector's types from its parts. */
export function defineCollector<Options, Facts, Memory, Walk, F extends Families>(
  collector: Collector<Options, Facts, Memory, Walk, F>,
): Collector<Options, Facts, Memory, Walk, F> {
  return collector;
}

/** The most pages that one step reads. */
export const PAGES_A_STEP = 10;
