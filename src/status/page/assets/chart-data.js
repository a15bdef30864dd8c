/**
 * Computes the lines of a chart from `api/v1/accounts/NAME/history`. Pure. Times: seconds since the Unix epoch. null: unknown.
 * In each gap of the history, all values of one time are null.
 * A chart: `{ kind, lines }`. Kinds: `level`: values of gauges; `rate`, `stack`: increases of counters; `quantile`: quantiles of a
 * histogram of seconds.
 * A line: `{ family, name?, look?, where?, by?, top?, looks? }`: the sum of its series, or one for each value of the label `by`.
 *
 * @import { HistoryView } from '../../api/history.ts'
 * @import { Chart, ChartLine } from '../charts.ts'
 * @typedef {(number | null)[]} Values
 * @typedef {HistoryView['series'][number]} Series
 * @typedef {{ readonly name: string, readonly look?: string | undefined, readonly values: Values }} Line
 * @typedef {{ readonly times: number[], readonly lines: Line[], readonly width: number }} Drawn
 * @typedef {(values: Values) => Values} Grow
 */

/** Possible widths of a bar (s). */
const WIDTHS = [60, 120, 300, 600, 900, 1800, 3600];
const MAX_BARS = 100;
const QUANTILES = [0.5, 0.9, 0.99];

/** @type {(columns: Values[], length: number) => Values} */
const sumOf = (columns, length) =>
  Array.from({ length }, (_, index) => {
    const known = columns.map(values => values[index] ?? null).filter(value => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
  });

/**
 * Fills a counter with 0 at times before its first value at which other series of its family existed.
 * @type {(members: Series[], family: Series[]) => Values[]}
 */
function fromZero(members, family) {
  return members.map(({ values }) => {
    const first = values.findIndex(value => value !== null);
    return values.map((value, index) =>
      index < first && family.some(each => each.values[index] !== null) ? 0 : value,
    );
  });
}

/** @param {Values} values */
const lastOf = values => values.findLast(value => value !== null) ?? 0;

/** Returns the lines of one entry of a chart. @type {(view: HistoryView, line: ChartLine, isCounter: boolean) => Line[]} */
function linesOf(view, line, isCounter) {
  const { family, name = '', look, where = {}, by, top = Number.POSITIVE_INFINITY, looks = {} } = line;
  const all = view.series.filter(each => each.family === family);
  // Some families have a recorded sum without labels, in addition to their largest series.
  const sum = all.filter(({ labels }) => Object.keys(labels).length === 0);
  const members = by === undefined ? (sum.length > 0 ? sum : all) : all.filter(({ labels }) => by in labels);
  const found = members.filter(({ labels }) =>
    Object.entries(where).every(([label, value]) => labels[label] === value),
  );
  const groups = Map.groupBy(found, ({ labels }) => (by === undefined ? name : (labels[by] ?? '')));
  const lines = [...groups].map(([name, members]) => {
    const columns = isCounter ? fromZero(members, all) : members.map(({ values }) => values);
    // The name may be that of an inherited property, such as `constructor`.
    const own = Object.hasOwn(looks, name) ? looks[name] : undefined;
    return { name, look: look ?? own, values: sumOf(columns, view.times.length) };
  });
  const order = Object.keys(looks);
  /** @param {Line} line */
  const place = ({ name }) => (order.includes(name) ? order.indexOf(name) : order.length);
  return lines
    .sort((one, other) => place(one) - place(other) || lastOf(other.values) - lastOf(one.values))
    .slice(0, top);
}

/** Returns the start of a time's bar. A bar contains its end, but not its start. @type {(at: number, width: number) => number} */
const startOf = (at, width) => Math.ceil(at / width) * width - width;

/**
 * Returns the increase of a counter in each interval; null if unknown. A counter that fell was reset to 0.
 * @type {(times: number[], values: Values, starts: number[], width: number) => Values}
 */
export function increases(times, values, starts, width) {
  /** @type {Map<number, number>} */
  const grown = new Map();
  for (let index = 1; index < times.length; index++) {
    const [before, now, at] = [values[index - 1] ?? null, values[index] ?? null, times[index] ?? 0];
    if (before === null || now === null) continue;
    const start = startOf(at, width);
    grown.set(start, (grown.get(start) ?? 0) + (now < before ? now : now - before));
  }
  return starts.map(start => grown.get(start) ?? null);
}

/**
 * Returns the upper bound of the bucket that contains a quantile; null without counts, or above the last bound.
 * @type {(quantile: number, buckets: (readonly [le: number, count: number])[]) => number | null}
 */
export function boundOf(quantile, buckets) {
  const total = buckets.at(-1)?.[1] ?? 0;
  const [bound = Number.POSITIVE_INFINITY] =
    (total > 0 && buckets.find(([, count]) => count >= quantile * total)) || [];
  return Number.isFinite(bound) ? bound : null;
}

/** Computes quantiles. `lines`: buckets by bound. @type {(lines: Line[], grow: Grow, length: number) => Line[]} */
function quantilesOf(lines, grow, length) {
  const buckets = lines
    .map(({ name, values }) => ({
      le: name === '+Inf' ? Number.POSITIVE_INFINITY : Number(name),
      counts: grow(values),
    }))
    .sort((one, other) => one.le - other.le);
  /** @param {number} index */
  const bucketsAt = index => buckets.map(({ le, counts }) => /** @type {const} */ ([le, counts[index] ?? 0]));
  return QUANTILES.map(quantile => ({
    name: `p${quantile * 100}`,
    values: Array.from({ length }, (_, index) => boundOf(quantile, bucketsAt(index))),
  }));
}

/** Returns lines with an increase, or the first line: outcomes that never happened need no legend. @param {Line[]} lines */
function happened(lines) {
  const found = lines.filter(({ values }) => values.some(value => value !== null && value > 0));
  return found.length > 0 ? found : lines.slice(0, 1);
}

/**
 * Computes the lines of a chart. `width`: interval of one value (s); 0 for instants.
 * @type {(chart: Chart, view: HistoryView, from: number, to: number) => Drawn}
 */
export function drawn({ kind, lines }, view, from, to) {
  const isCounter = kind !== 'level';
  const found = lines.flatMap(line => linesOf(view, kind === 'quantile' ? { ...line, by: 'le' } : line, isCounter));
  if (!isCounter) return { times: view.times, lines: found, width: 0 };
  const width = WIDTHS.find(each => (to - from) / each <= MAX_BARS) ?? 3600;
  const first = startOf(from, width);
  const last = startOf(Math.max(from, Math.min(to, view.times.at(-1) ?? to)), width);
  const starts = Array.from({ length: Math.round((last - first) / width) + 1 }, (_, index) => first + index * width);
  /** @type {Grow} */
  const grow = values => increases(view.times, values, starts, width);
  const made =
    kind === 'quantile'
      ? quantilesOf(found, grow, starts.length)
      : found.map(line => ({ ...line, values: grow(line.values) }));
  return { times: starts, lines: lines.some(({ by }) => by !== undefined) ? happened(made) : made, width };
}

/** Stacks each line on the previous ones, for bars. @type {(lines: Pick<Line, 'values'>[]) => Values[]} */
export function stacked(lines) {
  /** @type {Values} */
  let below = [];
  return lines.map(({ values }) => {
    below = values.map((value, index) => (value === null ? null : value + (below[index] ?? 0)));
    return below;
  });
}
