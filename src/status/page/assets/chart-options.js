import { duration } from './age.js';

export const HEIGHT = 190;
export const HOUR = 3600;

const countWords = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });
const compact = new Intl.NumberFormat('en', { notation: 'compact' });
const day = new Intl.DateTimeFormat('en', { day: 'numeric', month: 'short', timeZone: 'UTC' });
const localTime = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
  timeZoneName: 'short',
});
const utcTime = seconds => new Date(seconds * 1000).toISOString().slice(11, 16);

export const words = (value, kind) =>
  value === null || value === undefined
    ? 'no data'
    : kind === 'quantile'
      ? `≤ ${duration(value)}`
      : countWords.format(value);

/** Formats the time or interval of a value in UTC, and in local time if that differs. */
export function whenWords(at, width) {
  const [from, to] = [at, at + width];
  const date = day.format(at * 1000);
  const utc = `${date}, ${width ? `${utcTime(from)}–${utcTime(to)}` : utcTime(at)} UTC`;
  const isUtc = new Date(at * 1000).getTimezoneOffset() === 0;
  return isUtc ? utc : `${utc} (${localTime.formatRange(from * 1000, to * 1000)})`;
}

/** Labels the time axis: the date at midnight, otherwise the time. */
const axisTimes = (_plot, splits) => splits.map(at => (at % (24 * HOUR) === 0 ? day.format(at * 1000) : utcTime(at)));

/** Steps of the time axis (s): its labels contain no seconds. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440].map(minutes => 60 * minutes);

/** Tick values of an axis of durations (s). */
const TIMES = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 21_600, 86_400, 604_800];

/** Steps of an axis of numbers, which are whole. */
const WHOLE = Array.from({ length: 308 }, (_, power) => [1, 2, 5].map(each => each * 10 ** power)).flat();

/** Returns uPlot's options. The style sheet defines the colours of the legend and the lines. */
export function options(chart, { times, lines }) {
  const { spec, plot, marks, ends } = chart;
  const axis = {
    stroke: () => getComputedStyle(plot).color,
    font: `12px ${getComputedStyle(plot).fontFamily}`,
    grid: { stroke: () => getComputedStyle(plot).borderTopColor, width: 1 },
    ticks: { show: false },
  };
  const isTime = spec.kind === 'quantile';
  const stepped = uPlot.paths.stepped({ align: 1, alignGaps: 1 });
  const stack = uPlot.paths.bars({ size: [1, Number.POSITIVE_INFINITY], align: 1, gap: 1 });
  const paths = { level: undefined, rate: stepped, quantile: stepped, stack };
  return {
    width: plot.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    tzDate: at => uPlot.tzDate(new Date(at * 1000), 'Etc/UTC'),
    // Leave space for half of the last label of the time axis.
    padding: [8, 20, 0, 0],
    scales: {
      x: { range: () => ends },
      y: isTime ? { distr: 3, log: 10 } : { range: (_plot, _least, top) => [0, top > 0 ? top * 1.08 : 1] },
    },
    axes: [
      { ...axis, values: axisTimes, incrs: STEPS, space: 64, size: 28 },
      {
        ...axis,
        ...(isTime
          ? {
              splits: (_plot, _axis, least, top) => TIMES.filter(each => each >= least && each <= top),
              filter: (_plot, splits) => splits,
            }
          : { incrs: WHOLE }),
        size: 52,
        space: 34,
        values: (_plot, splits) => splits.map(each => (isTime ? duration(each) : compact.format(each))),
      },
    ],
    cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 }, sync: { key: 'charts', setSeries: false } },
    series: [
      {},
      ...lines.map((_, index) => ({
        stroke: () => getComputedStyle(marks[index]).color,
        ...(spec.kind === 'stack' ? { fill: () => getComputedStyle(marks[index]).color } : {}),
        width: spec.kind === 'stack' ? 0 : 2,
        paths: paths[spec.kind],
        points: { show: spec.kind === 'level' && times.length < 3 },
      })),
    ],
    hooks: { setCursor: [({ cursor: { idx } }) => chart.show(idx ?? undefined)] },
  };
}
