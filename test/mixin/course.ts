import { collectors } from '../../src/collectors/index.ts';
import type { Input, Values } from './cases/case.ts';

/** What series do over time: each function makes another course of one, as a replica would show it. */

/** Families of the service, by the names of their series: frozen or withdrawn when they can't be read. */
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

/** The same, so many minutes later; before, there is nothing. */
export const delayed = (input: Input, by: number): Input =>
  mapped(input, (values, series) => minute => {
    const value = minute < by ? undefined : values(minute - by);
    return value !== undefined && isTime(series) ? value + 60 * by : value;
  });

/** One course after another, each from a minute on, which is minute 0 to it. Counters go on from where they stood. */
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

/** No scrape succeeds for two minutes. */
export const restarted = (input: Input, at: number): Input =>
  mapped(input, values => minute => (minute >= at && minute < at + 2 ? undefined : values(minute)));

/** The same without a store: what is counted begins anew, as does what says since when. */
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

/** The same, but nothing says that it has ended: Prometheus goes on with the last values for five minutes. */
export const vanished = (input: Input, at: number): Input =>
  mapped(input, values => minute => (minute < at ? values(minute) : NO_SAMPLE));
/** Neither a sample nor an end. */
export const NO_SAMPLE = Number.NaN;

/** What another replica shows that takes the account over: counters go on from the shared store; it has read all two minutes later. */
export const takenOver = (input: Input, at: number): Input =>
  mapped(input, (values, series) => minute => {
    if (minute < at) return undefined;
    if (minute >= at + 2) return values(minute);
    if (series === COUNTING) return 0;
    if (isWithdrawn(series) || NOT_BEFORE_A_ROUND.test(series)) return undefined;
    return isFrozen(series) ? values(at) : values(minute);
  });
const NOT_BEFORE_A_ROUND = /^delivery_collector_(data_timestamp_seconds|success|data_complete)/;

/** What a replica shows that can't reach the database any more: it reads everything, and can't store it. */
export const cutOff = (input: Input, at: number): Input =>
  mapped(input, (values, series) => minute => {
    if (minute < at) return values(minute);
    if (/^delivery_(up$|collector_success|event_log_counting$)/.test(series)) return 0;
    return isFrozen(series) ? values(at) : values(minute);
  });

export const withGaps = (input: Input): Input =>
  mapped(input, values => minute => (minute % 4 === 1 || minute % 4 === 2 ? undefined : values(minute)));

/** One of everything that is counted. */
export const oneOfEach = (input: Input): Input =>
  mapped(input, (values, series) => (isCounter(series) ? minute => Math.min(1, values(minute) ?? 0) : values));

/** A span of minutes in which nothing can be read: the first without a complete round is the next after `from`. */
export interface Darkness {
  readonly from: number;
  readonly to: number;
}

/** So many minutes after the last complete round gauges are withdrawn. */
const WITHDRAWN_AFTER = 5;

/** What is seen of it: counters stand still, gauges go in the end, and at `to` there is all that happened meanwhile. */
export const unseen = (input: Input, { from, to }: Darkness): Input =>
  mapped(input, (values, series) => minute => {
    if (minute <= from || minute >= to) return values(minute);
    if (isFrozen(series)) return values(from);
    if (!isWithdrawn(series)) return values(minute);
    return minute < from + WITHDRAWN_AFTER ? values(from) : undefined;
  });

/** Rounds of the collectors, as a scrape shows that they fare. */
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

/** The same, and the agent restarts without reading anything: nothing is stale yet, but nothing was ever read, either. */
export const blindRestart = (input: Input, at: number): Input =>
  mapped(restarted(input, at), (values, series) => minute => {
    if (minute < at) return values(minute);
    if (series === COUNTING) return values(minute) === undefined ? undefined : 0;
    if (isWithdrawn(series) || familyOf(series) === 'delivery_collector_data_timestamp_seconds') return undefined;
    if (familyOf(series) === 'delivery_collector_data_stale' && minute >= at + 2) return Number(minute > at + 20);
    return values(minute);
  });

/**
 * No agent runs from `from` to `back`. The next one reads the log in the order of time and reaches its end at `caughtUp`: until then
 * its counters rise from where they stood, and gauges of the service are missing.
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

/** Every round with the usual options. */
export const allRounds: readonly Round[] = collectors.flatMap(({ name, rounds, options }) =>
  Object.keys(rounds(options.parse({}))).map(round => ({ collector: name, round })),
);
