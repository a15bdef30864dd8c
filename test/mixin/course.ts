import { collectors } from '../../src/collectors/index.ts';
import type { Input, Values } from './cases/case.ts';

/** Transforms series into those that a replica exposes during restarts, takeovers and failed reads. */

/**
 * Metric types of the families about the service, by series name. While reads fail, the counters are frozen and the gauges
 * withdrawn.
 */
const ofService = new Map(
  collectors
    .flatMap(({ families }) => Object.values(families))
    .flatMap(({ name, type }) =>
      (type === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']).map(suffix => [name + suffix, type] as const),
    ),
);
const familyOf = (series: string) => series.replace(/\{.*/, '');
export const isCounter = (series: string) => /_(total|bucket|sum|count)$/.test(familyOf(series));
const isTime = (series: string) => /_timestamp_seconds$/.test(familyOf(series));
const isFrozen = (series: string) => ofService.has(familyOf(series)) && isCounter(series);
const isWithdrawn = (series: string) => ofService.get(familyOf(series)) === 'gauge';

const mapped = (input: Input, change: (values: Values, series: string) => Values): Input =>
  Object.fromEntries(Object.entries(input).map(([series, values]) => [series, change(values, series)]));

/** Delays the input by `by` minutes. There are no samples before minute `by`. */
export const delayed = (input: Input, by: number): Input =>
  mapped(input, (values, series) => minute => {
    const value = minute < by ? undefined : values(minute - by);
    return value !== undefined && isTime(series) ? value + 60 * by : value;
  });

/** Concatenates inputs. Minute 0 of each later input becomes minute `from`. Counters continue from their previous values. */
export function course(first: Input, ...later: readonly (readonly [from: number, input: Input])[]): Input {
  return later.reduce((input, [from, next]) => followed(input, from, delayed(next, from)), first);
}

function followed(before: Input, from: number, after: Input): Input {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return Object.fromEntries(
    names.map(name => {
      const [early, late] = [before[name], after[name]];
      if (!isCounter(name)) return [name, minute => (minute < from ? early : late)?.(minute)];
      const start = early?.(from) ?? 0;
      const rise = (minute: number) => (late?.(minute) ?? 0) - (late?.(from) ?? 0);
      return [name, minute => (minute < from ? early?.(minute) : start + rise(minute))];
    }),
  );
}

/** The agent restarts: scrapes fail for two minutes. */
export const restarted = (input: Input, at: number): Input =>
  mapped(input, values => minute => (minute >= at && minute < at + 2 ? undefined : values(minute)));

/** The agent restarts without its store: counters and their start time are reset. */
export const reset = (input: Input, at: number): Input =>
  mapped(restarted(input, at), (values, series) => minute => {
    const value = values(minute);
    if (value === undefined || minute < at) return value;
    if (familyOf(series) === SINCE) return 60 * (at + 2);
    return isCounter(series) ? value - (values(at + 2) ?? 0) : value;
  });
const SINCE = 'delivery_event_log_since_timestamp_seconds';
const COUNTING = 'delivery_event_log_counting';

export const ended = (input: Input, at: number): Input =>
  mapped(input, values => minute => (minute < at ? values(minute) : undefined));

/** Like `ended`, but without a staleness marker: Prometheus uses the last values for five more minutes. */
export const vanished = (input: Input, at: number): Input =>
  mapped(input, values => minute => (minute < at ? values(minute) : NO_SAMPLE));
/** Value that stands for a missing sample without a staleness marker. */
export const NO_SAMPLE = Number.NaN;

/**
 * Series of a replica that takes over the account. Counters continue, because they are in the shared store. The first reads
 * are complete two minutes later.
 */
export const takenOver = (input: Input, at: number): Input =>
  mapped(input, (values, series) => minute => {
    if (minute < at) return undefined;
    if (minute >= at + 2) return values(minute);
    if (series === COUNTING) return 0;
    if (isWithdrawn(series) || NOT_BEFORE_A_ROUND.test(series)) return undefined;
    return isFrozen(series) ? values(at) : values(minute);
  });
const NOT_BEFORE_A_ROUND = /^delivery_collector_(data_timestamp_seconds|success|data_complete)/;

/** The agent is killed at `from` and every `period` minutes: scrapes fail for a minute, and the next reads are complete later. */
export function killedEvery(input: Input, period: number, from: number): Input {
  const starts = new Map<number, Input>();
  const startedAt = (minute: number) => from + Math.floor((minute - from) / period) * period + 1;
  const after = (at: number) => {
    const known = starts.get(at) ?? takenOver(input, at);
    starts.set(at, known);
    return known;
  };
  return mapped(input, (values, series) => minute => {
    if (minute < from) return values(minute);
    return after(startedAt(minute))[series]?.(minute);
  });
}

/** Series of a replica that loses database access: it reads everything but can store nothing. */
export const cutOff = (input: Input, at: number): Input =>
  mapped(input, (values, series) => minute => {
    if (minute < at) return values(minute);
    if (/^delivery_(up$|collector_success|event_log_counting$)/.test(series)) return 0;
    return isFrozen(series) ? values(at) : values(minute);
  });

export const withGaps = (input: Input): Input =>
  mapped(input, values => minute => (minute % 4 === 1 || minute % 4 === 2 ? undefined : values(minute)));

/** Limits every counter to at most one. */
export const oneOfEach = (input: Input): Input =>
  mapped(input, (values, series) => (isCounter(series) ? minute => Math.min(1, values(minute) ?? 0) : values));

/** Period without a complete read, between the minutes `from` and `to`. */
export interface Darkness {
  readonly from: number;
  readonly to: number;
}

/** Time from the last complete round until gauges are withdrawn (minutes). */
const WITHDRAWN_AFTER = 5;

/**
 * The input as exposed while reads fail: counters are frozen and gauges are withdrawn. At minute `to`, all changes appear at
 * once.
 */
export const unseen = (input: Input, { from, to }: Darkness): Input =>
  mapped(input, (values, series) => minute => {
    if (minute <= from || minute >= to) return values(minute);
    if (isFrozen(series)) return values(from);
    if (!isWithdrawn(series)) return values(minute);
    return minute < from + WITHDRAWN_AFTER ? values(from) : undefined;
  });

/** Health metrics of the collectors' rounds. */
export function health(rounds: readonly Round[], darkness: Darkness = { from: Infinity, to: Infinity }): Input {
  const isDark = (minute: number) => minute > darkness.from && minute < darkness.to;
  const isFine = (minute: number) => Number(!isDark(minute));
  const readAt = (minute: number) => 60 * (isDark(minute) ? darkness.from : minute);
  return {
    delivery_up: isFine,
    [COUNTING]: isFine,
    [SINCE]: () => 0,
    'delivery_objective_ratio{objective="delivered"}': () => 0.99,
    'delivery_objective_ratio{objective="on_time"}': () => 0.99,
    delivery_on_time_target_seconds: () => 300,
    delivery_objective_window_seconds: () => 30 * 86_400,
    delivery_dlq_max_age_seconds: () => 86_400,
    ...Object.fromEntries(
      rounds.flatMap(({ collector, round }) => {
        const labels = `{collector="${collector}",round="${round}"}`;
        return [
          [`delivery_collector_data_stale${labels}`, minute => Number(isDark(minute))],
          [`delivery_collector_data_timestamp_seconds${labels}`, readAt],
          [`delivery_collector_data_complete${labels}`, isFine],
          [`delivery_collector_success${labels}`, isFine],
        ] as [string, Values][];
      }),
    ),
  };
}

/** The agent restarts while reads fail. Afterwards it has no data, so no data is stale yet. */
export const blindRestart = (input: Input, at: number): Input =>
  mapped(restarted(input, at), (values, series) => minute => {
    if (minute < at) return values(minute);
    if (series === COUNTING) return values(minute) === undefined ? undefined : 0;
    if (isWithdrawn(series) || familyOf(series) === 'delivery_collector_data_timestamp_seconds') return undefined;
    if (familyOf(series) === 'delivery_collector_data_stale' && minute >= at + 2) return Number(minute > at + 20);
    return values(minute);
  });

/**
 * No agent runs between the minutes `from` and `back`. The next agent reads the log in chronological order. Until `caughtUp`,
 * its counters increase from their previous values, and gauges about the service are missing.
 */
export const caughtUpAfter = (
  input: Input,
  { from, back, caughtUp }: { from: number; back: number; caughtUp: number },
): Input =>
  mapped(input, (values, series) => minute => {
    if (minute < from || minute >= caughtUp) return values(minute);
    if (minute < back) return undefined;
    if (series === COUNTING) return 0;
    if (isWithdrawn(series) || NOT_BEFORE_A_ROUND.test(series)) return undefined;
    const readTo = from + ((minute - back) * (caughtUp - from)) / (caughtUp - back);
    return values(isFrozen(series) ? Math.floor(readTo) : minute);
  });

export interface Round {
  readonly collector: string;
  readonly round: string;
}

/** All rounds of all collectors with default options. */
export const allRounds: readonly Round[] = collectors.flatMap(({ name, rounds, options }) =>
  Object.keys(rounds(options.parse({}))).map(round => ({ collector: name, round })),
);
