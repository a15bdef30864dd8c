/**
 * From an answer of `api/v1/accounts/NAME/history` to what a chart draws: pure. Times: seconds since the Unix epoch. null: not known.
 * A chart: `{ kind, lines, unit?, quantiles? }`. `level`: values as they are; `rate`, `stack`: increase of counters; `quantile`: of a histogram.
 * A line: `{ family, name?, look?, where?, by?, top?, looks? }`: the sum of its series, or one for each value of the label `by`.
 */

/** Seconds that a bar may stand for. */
const WIDTHS = [60, 120, 300, 600, 900, 1800, 3600];
const MOST_BARS = 100;
/** A step between samples that is longer than this many of those around it is a gap: nothing was recorded. */
const GAP = 2.5;

const keyOf = ({ family, labels }) => JSON.stringify([family, Object.entries(labels).sort()]);

/** `view` with what `more` has after it, and without what is before `from`. */
export function appended(view, more, from) {
  const last = view.times.at(-1) ?? Number.NEGATIVE_INFINITY;
  const [start, next] = [view.times.findIndex(at => at >= from), more.times.findIndex(at => at > last)];
  const old = start < 0 ? [] : view.times.slice(start);
  const fresh = next < 0 ? [] : more.times.slice(next);
  const [before, after] = [view, more].map(each => new Map(each.series.map(series => [keyOf(series), series])));
  const valuesOf = (series, begin, times) => series?.values.slice(begin) ?? times.map(() => null);
  const series = [...new Map([...before, ...after])].map(([key, { family, labels }]) => ({
    family,
    labels,
    values: [
      ...(old.length ? valuesOf(before.get(key), start, old) : []),
      ...(fresh.length ? valuesOf(after.get(key), next, fresh) : []),
    ],
  }));
  return { ...more, times: [...old, ...fresh], series };
}

/** Whether nothing was recorded between a sample and the one before it. */
export function gapsOf(times) {
  const steps = times.slice(1).map((at, index) => at - times[index]);
  return times.map((_, index) => {
    if (index === 0) return true;
    const around = steps.slice(Math.max(0, index - 5), index + 4).sort((one, other) => one - other);
    return steps[index - 1] > GAP * around[Math.floor((around.length - 1) / 2)];
  });
}

const sumOf = (columns, length) =>
  Array.from({ length }, (_, index) => {
    const known = columns.map(values => values[index]).filter(value => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
  });

/** A counter that is first shown later than others of its family was 0 until then. */
function fromZero(members, family) {
  return members.map(({ values }) => {
    const first = values.findIndex(value => value !== null);
    return values.map((value, index) =>
      index < first && family.some(each => each.values[index] !== null) ? 0 : value,
    );
  });
}

const lastOf = values => values.findLast(value => value !== null) ?? 0;

/** What a line is made of: a name and values for each. */
function linesOf(
  view,
  { family, name = '', look, where = {}, by, top = Number.POSITIVE_INFINITY, looks = {} },
  isCounter,
) {
  const all = view.series.filter(each => each.family === family);
  // Of some families a sum is recorded beside the largest: it alone has no labels.
  const sum = all.filter(({ labels }) => Object.keys(labels).length === 0);
  const members = by === undefined ? (sum.length > 0 ? sum : all) : all.filter(({ labels }) => by in labels);
  const found = members.filter(({ labels }) =>
    Object.entries(where).every(([label, value]) => labels[label] === value),
  );
  const groups = Map.groupBy(found, ({ labels }) => (by === undefined ? name : labels[by]));
  const lines = [...groups].map(([name, members]) => {
    const columns = isCounter ? fromZero(members, all) : members.map(({ values }) => values);
    return { name, look: look ?? looks[name], values: sumOf(columns, view.times.length) };
  });
  const order = Object.keys(looks);
  const place = ({ name }) => (order.includes(name) ? order.indexOf(name) : order.length);
  return lines
    .sort((one, other) => place(one) - place(other) || lastOf(other.values) - lastOf(one.values))
    .slice(0, top);
}

/** Where a bar begins that has what happened at a time: each ends with its last second. */
const startOf = (at, width) => Math.ceil(at / width) * width - width;

/** By how much a counter grew in each interval; null where that is not known. One that fell began again at 0: the agent’s own do. */
export function increases(times, values, gaps, starts, width) {
  const grown = new Map();
  for (let index = 1; index < times.length; index++) {
    const [before, now] = [values[index - 1], values[index]];
    if (gaps[index] || before === null || now === null) continue;
    const start = startOf(times[index], width);
    grown.set(start, (grown.get(start) ?? 0) + (now < before ? now : now - before));
  }
  return starts.map(start => grown.get(start) ?? null);
}

/** Upper bound of the bucket that a quantile is in; null: nothing counted, or above the last bound. `buckets`: `[le, count]`, cumulative. */
export function boundOf(quantile, buckets) {
  const total = buckets.at(-1)?.[1] ?? 0;
  const [bound] = (total > 0 && buckets.find(([, count]) => count >= quantile * total)) || [];
  return Number.isFinite(bound) ? bound : null;
}

function quantilesOf(quantiles, lines, grow, starts) {
  const buckets = lines
    .map(({ name, values }) => [name === '+Inf' ? Number.POSITIVE_INFINITY : Number(name), grow(values)])
    .sort(([one], [other]) => one - other);
  return quantiles.map(quantile => ({
    name: `p${Math.round(quantile * 1e4) / 100}`,
    values: starts.map((_, index) =>
      boundOf(
        quantile,
        buckets.map(([le, values]) => [le, values[index] ?? 0]),
      ),
    ),
  }));
}

/** Values with an empty row in each gap, so that no line goes across it. */
function withGaps(times, gaps, lines) {
  const rows = times.flatMap((_, index) => (gaps[index] && index > 0 ? [undefined, index] : [index]));
  return {
    times: rows.map((row, index) => (row === undefined ? times[rows[index + 1] - 1] + 1 : times[row])),
    lines: lines.map(line => ({ ...line, values: rows.map(row => (row === undefined ? null : line.values[row])) })),
  };
}

/** What a chart draws: `{ times, lines, width }`; `width`: seconds that one value stands for, 0 where it is of an instant. */
export function drawn({ kind, lines, quantiles = /** @type {number[]} */ ([]) }, view, from, to) {
  const isCounter = kind !== 'level';
  const gaps = gapsOf(view.times);
  const found = lines.flatMap(line => linesOf(view, kind === 'quantile' ? { ...line, by: 'le' } : line, isCounter));
  if (!isCounter) return { ...withGaps(view.times, gaps, found), width: 0 };
  const width = WIDTHS.find(each => (to - from) / each <= MOST_BARS) ?? WIDTHS.at(-1);
  const [first, last] = [startOf(from, width), startOf(to, width)];
  const starts = Array.from({ length: Math.round((last - first) / width) + 1 }, (_, index) => first + index * width);
  const grow = values => increases(view.times, values, gaps, starts, width);
  const made =
    kind === 'quantile'
      ? quantilesOf(quantiles, found, grow, starts)
      : found.map(line => ({ ...line, values: grow(line.values) }));
  return { times: starts, lines: made, width };
}

/** Each line upon those before it, for bars. */
export function stacked(lines) {
  let below = [];
  return lines.map(({ values }) => {
    below = values.map((value, index) => (value === null ? null : value + (below[index] ?? 0)));
    return below;
  });
}
