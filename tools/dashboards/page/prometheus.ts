import { type DataFrame, FieldType, type Labels, rangeUtil } from '@grafana/data';
import type { Range, Target } from './model.ts';

/** Scrape interval in the settings of the Prometheus data source (ms). */
const SCRAPE_MS = 30_000;
const LONGEST_LEGEND = 2000;

type Sample = readonly [seconds: number, value: string];
interface Series {
  readonly metric: Labels;
  readonly values?: readonly Sample[];
  readonly value?: Sample;
}

const numberOf = (text: string) => Number(text.replace('Inf', 'Infinity'));

async function get(base: string, path: string, query: Record<string, string>): Promise<unknown> {
  const answer = await (await fetch(`${base}/api/v1/${path}?${new URLSearchParams(query)}`)).json();
  if (answer.status !== 'success') throw new Error(answer.error);
  return answer.data;
}

export async function labelValues(base: string, label: string, match: string, { from, to }: Range): Promise<string[]> {
  const query = { 'match[]': match, start: String(from), end: String(to) };
  return (await get(base, `label/${label}/values`, query)) as string[];
}

/**
 * Returns the query interval (ms) that Grafana chooses for a panel with this many points. `least` is the panel's minimum
 * interval.
 */
export function intervalOf({ from, to }: Range, points: number, least: string | undefined): number {
  const lowest = least === undefined ? SCRAPE_MS : rangeUtil.intervalToMs(least.replace(/^>/, ''));
  const chosen = rangeUtil.roundInterval(((to - from) * 1000) / points);
  return Math.max(chosen, lowest);
}

/** Returns the values of Grafana's built-in variables. */
export function intervals(ms: number, { from, to }: Range): Record<string, string> {
  const rate = Math.max(ms + SCRAPE_MS, 4 * SCRAPE_MS);
  const range = Math.round(to - from);
  return {
    __interval: rangeUtil.secondsToHms(ms / 1000),
    __interval_ms: String(ms),
    __rate_interval: rangeUtil.secondsToHms(rate / 1000),
    __range: `${range}s`,
    __range_s: String(range),
    __range_ms: String(range * 1000),
    __from: String(from * 1000),
    __to: String(to * 1000),
  };
}

function legendOf({ legendFormat = '' }: Target, metric: Labels): string | undefined {
  if (legendFormat === '__auto' || legendFormat === '') return undefined;
  return legendFormat.replaceAll(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => metric[label] ?? '').slice(0, LONGEST_LEGEND);
}

function nameOf({ __name__ = '', ...labels }: Labels): string {
  const list = Object.entries(labels).map(([name, value]) => `${name}="${value}"`);
  return `${__name__}{${list.join(', ')}}`;
}

/** Inserts a null wherever samples are missing, as Grafana does, so that no line is drawn across the gap. */
const withGaps = (samples: readonly Sample[], ms: number): readonly (Sample | readonly [number, null])[] =>
  samples.flatMap((sample, index) => {
    const before = samples[index - 1]?.[0] ?? sample[0];
    return (sample[0] - before) * 1000 > ms ? [[before + ms / 1000, null] as const, sample] : [sample];
  });

function timeSeries(target: Target, { metric, values, value }: Series, ms: number): DataFrame {
  const samples = withGaps(values ?? (value ? [value] : []), ms);
  const { __name__: _, ...labels } = metric;
  const name = legendOf(target, metric) ?? nameOf(metric);
  return {
    refId: target.refId,
    name,
    length: samples.length,
    fields: [
      { name: 'Time', type: FieldType.time, config: { interval: ms }, values: samples.map(([at]) => at * 1000) },
      {
        name: 'Value',
        type: FieldType.number,
        labels,
        config: { displayNameFromDS: name },
        values: samples.map(([, text]) => (text === null ? null : numberOf(text))),
      },
    ],
  };
}

/** Returns a table with one row per series, and with the labels and the latest value as columns. */
function table({ refId }: Target, series: readonly Series[], targets: number): DataFrame {
  const labels = [...new Set(series.flatMap(({ metric }) => Object.keys(metric)))].sort();
  const latest = series.map(({ value, values }) => value ?? values?.at(-1));
  return {
    refId,
    length: series.length,
    fields: [
      { name: 'Time', type: FieldType.time, config: {}, values: latest.map(sample => (sample?.[0] ?? 0) * 1000) },
      ...labels.map(name => ({
        name,
        type: FieldType.string,
        config: { filterable: true },
        values: series.map(({ metric }) => metric[name] ?? ''),
      })),
      {
        name: targets > 1 ? `Value #${refId}` : 'Value',
        type: FieldType.number,
        config: {},
        values: latest.map(sample => numberOf(sample?.[1] ?? 'NaN')),
      },
    ],
  };
}

/** Returns one frame per histogram bucket in ascending order, with non-cumulative counts. */
function heatmap(target: Target, series: readonly Series[], ms: number): DataFrame[] {
  const sorted = series.toSorted((a, b) => numberOf(a.metric.le ?? '') - numberOf(b.metric.le ?? ''));
  return sorted.map((each, index) => {
    const below = new Map(sorted[index - 1]?.values);
    const values = each.values?.map(([at, text]): Sample => {
      const own = numberOf(text) - numberOf(below.get(at) ?? '0');
      return [at, String(Math.max(0, own))];
    });
    return timeSeries(target, { ...each, values: values ?? [] }, ms);
  });
}

/** Returns the frames that Grafana's data source creates for a query after variable replacement. */
export async function query(base: string, target: Target, range: Range, ms: number, targets: number) {
  const { expr, instant, format = 'time_series' } = target;
  const step = ms / 1000;
  const aligned = (at: number) => String(Math.floor(at / step) * step);
  const data = instant
    ? await get(base, 'query', { query: expr, time: String(range.to) })
    : await get(base, 'query_range', {
        query: expr,
        start: aligned(range.from),
        end: aligned(range.to),
        step: String(step),
      });
  const { result } = data as { result: Series[] | Sample; resultType: string };
  const series = (
    typeof result[0] === 'number' ? [{ metric: {}, value: result as Sample }] : result
  ) as readonly Series[];
  if (format === 'table') return [table(target, series, targets)];
  if (format === 'heatmap') return heatmap(target, series, ms);
  return series.map(each => timeSeries(target, each, ms));
}
