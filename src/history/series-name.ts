import { escapeLabelValue } from '../metrics/exposition.ts';

const TEXTS: Readonly<Record<string, string>> = { '\\\\': '\\', '\\"': '"', '\\n': '\n' };

/** Returns `name{label="value"}`, escaped as in the exposition and always on one line. Omits undefined labels. */
export function seriesName(name: string, labels: Readonly<Record<string, string | undefined>>): string {
  let pairs = '';
  // Avoid intermediate lists: an overview of a thousand accounts needs a hundred thousand names.
  for (const label in labels) {
    const text = labels[label];
    if (text === undefined) continue;
    pairs += `${pairs === '' ? '' : ','}${label}="${escapeLabelValue(text)}"`;
  }
  return pairs === '' ? name : `${name}{${pairs}}`;
}

export const metricOf = (series: string): string => series.split('{', 1)[0] as string;

/** Whether a metric belongs to a family, including the series of a histogram, such as `_bucket`. */
export const isOfFamily = (metric: string, families: ReadonlySet<string>): boolean =>
  families.has(metric) || families.has(metric.replace(/_(bucket|sum|count)$/, ''));

const PAIR = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\[\\"n])*)"/g;

export const labelsOf = (series: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...series.slice(metricOf(series).length).matchAll(PAIR)].map(([, label = '', text = '']) => [
      label,
      text.replace(/\\[\\"n]/g, escaped => TEXTS[escaped] ?? ''),
    ]),
  );
