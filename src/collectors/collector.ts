import type { z } from 'zod';
import type { Family, FamilyType, Sample, Source } from '../metrics/family.ts';
import type { Inherited, Visible } from '../scheduler/board.ts';
import type { Observation, RoundStep } from '../scheduler/runner.ts';
import type { Priority, Reader, ReadRound, ServiceClock } from '../upstream/api.ts';
import { isMissingPath } from '../upstream/errors.ts';

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

type FactFamilies<Facts> = Readonly<Record<string, FactFamily<Facts>>>;

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

/** Returns the value of a sample: 1 or 0; undefined if unknown. */
export const flagValue = (flag: boolean | undefined) => (flag === undefined ? undefined : Number(flag));

export const toSeconds = (ms: number | undefined) => (ms === undefined ? undefined : ms / 1000);

/** The service's clock, without the functions that measure it. Times in the service's data are by this clock. */
export type ServiceTime = Omit<ServiceClock, 'startRequest' | 'largestSkew'>;

/** Uses the agent's clock, as long as the service's is unknown. */
export const AGENT_TIME: ServiceTime = {
  at: time => time,
  latest: time => time,
  skew: () => undefined,
  observeLog() {},
};

export type { Folded, Observation } from '../scheduler/runner.ts';

export interface ObserveContext<Memory, Walk> extends RoundStep<Memory, Walk> {
  readonly api: Reader;
}

export interface Cadence {
  readonly every: number;
  /** Number of requests per round when there is no new data. */
  readonly requests: number;
  /** Explains, for `plan`, why a round may send several requests. */
  readonly why?: string;
  readonly priority: Priority;
  /** Number of missed intervals after which the data is stale, if lower than `staleness.markAfter`. */
  readonly markAfter?: number;
}

export type Rounds = Readonly<Record<string, Cadence>>;

/** The part of a collector that does not depend on the account. */
export interface CollectorKind<Facts = unknown, F extends FactFamilies<Facts> = FactFamilies<Facts>> {
  /** Value of the label `collector`, prefix of the store keys, and name in logs. */
  readonly name: string;
  /** Name in texts for users: the data in the plural, `Dead letters`. */
  readonly title: string;
  readonly families: F;
  /** Rounds that may keep failing without gauges being withdrawn. */
  readonly auxiliary?: readonly string[];
  /** Whether a service may lack the data. The health of the account does not depend on optional data. */
  readonly isOptional?: boolean;
}

export interface ConfiguredKind<
  Options = unknown,
  Facts = unknown,
  F extends FactFamilies<Facts> = FactFamilies<Facts>,
  Services = unknown,
> extends CollectorKind<Facts, F> {
  readonly configKey: string;
  readonly options: z.ZodType<Options & { readonly enabled: boolean | 'auto' }>;
  rounds(options: Options): Rounds;
  create(options: Options, services: Services): Collector<Facts>;
}

export const defineKind = <Options, Facts, F extends FactFamilies<Facts>, Services>(
  kind: ConfiguredKind<Options, Facts, F, Services>,
) => kind;

/**
 * Collects one kind of data for one account: reads it (`observe`, the only IO, may throw) and folds it to facts (`fold`).
 * Families pick their samples from facts. The runner handles timing, errors, logging and storing.
 */
export interface Collector<Facts = unknown, Memory = unknown, Walk = unknown> extends CollectorKind<Facts> {
  readonly rounds: Rounds;
  /** Restores the memory from rows that earlier processes committed. `last`: facts from before a reload. */
  restore(rows: ReadonlyMap<string, string>, last?: Facts): Memory;
  /** After a reload, removes the inherited state that these options no longer describe. */
  inherit?(last: Inherited<Facts>): Inherited<Facts>;
  /** Returns facts of the restored memory. Before the first round, only their counters and histograms are shown. */
  recall?(memory: Memory): Facts;
  observe(context: ObserveContext<Memory, Walk>): Promise<Observation<Facts, Memory, Walk>>;
}

/**
 * Adapts a collector to the runner. Each round has one reader, which sends requests with the round's priority. Cached responses
 * older than the shortest interval are not used: they would undo later reads of the collector's other rounds.
 */
export function withReader<Facts, Memory, Walk>(
  collector: Collector<Facts, Memory, Walk>,
  at: (priority: Priority, round: ReadRound) => Reader,
) {
  const readers = new Map<string, Reader>();
  const maxAge = Math.min(...Object.values(collector.rounds).map(({ every }) => every));
  return {
    ...collector,
    observe(step: RoundStep<Memory, Walk>) {
      const { round, walk } = step;
      const current = walk === undefined ? undefined : readers.get(round);
      const api = current ?? at(collector.rounds[round]?.priority ?? 'background', { name: round, maxAge });
      readers.set(round, api);
      return collector.observe({ api, ...step });
    },
  };
}

/**
 * Accepts that a service lacks the data of an optional collector. After a 404, the round reads another list of the account. If
 * that fails, too, the region or the path may be wrong, and the round fails.
 */
export function withAbsence<Facts, Memory, Walk>(
  collector: Collector<Facts, Memory, Walk>,
  readOther: (api: Reader, signal: AbortSignal) => Promise<unknown>,
): Collector<Facts, Memory, Walk> {
  return {
    ...collector,
    async observe(context) {
      try {
        return await collector.observe(context);
      } catch (error) {
        if (!isMissingPath(error)) throw error;
        await readOther(context.api, context.signal).catch(() => {
          throw error;
        });
        return { fold: memory => ({ memory, facts: undefined, changes: [] }), more: undefined, idle: 'absent' };
      }
    },
  };
}

/** A response that can be parsed, but has impossible content. */
export class ImplausibleResponse extends Error {
  override readonly name = 'Implausible';
  readonly reason = 'invalid_response';
}

/** Maximum size of the rows that one read keeps in memory (bytes). Only a hostile service lists more. */
export const MAX_READ_BYTES = 256 * 2 ** 20;

/** Estimates the size of rows in memory (bytes). */
export const bytesOf = (rows: object): number => 2 * JSON.stringify(rows).length;

export const PAGES_A_STEP = 10;
