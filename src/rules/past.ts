import type { Chunk } from '../history/chunk.ts';
import { CLOCK_STEPPED, type Recorder, SAMPLE_EVERY } from '../history/recorder.ts';
import { labelsOf, metricOf, seriesName } from '../history/series-name.ts';
import type { Clock } from '../kit/clock.ts';
import { type AlertFacts, isSelected, type Past, windowsOf } from './evidence.ts';
import type { HistoryPoint } from './history.ts';
import type { AlertCondition, Selector } from './options.ts';

/** Maximum number of recorded series per selector. A selector with more series has no history after a restart. */
const MAX_SERIES = 1000;

/** Returns the name of a series that is 1 whenever the selected series were recorded. Stale and partial data is not recorded. */
const markerOf = ({ metric, labels }: Selector) => `?${JSON.stringify([metric, labels])}`;

/** Returns a function that selects the current values to record, by series. */
export function createSelection(conditions: readonly AlertCondition[], facts: AlertFacts): () => Map<string, number> {
  const selectors = new Map(conditions.flatMap(windowsOf).map(({ selector }) => [markerOf(selector), selector]));
  return () => {
    const values = new Map<string, number>();
    for (const [marker, selector] of selectors) {
      const { metric } = selector;
      const complete = facts.isPartial(selector) ? undefined : facts.series(metric);
      const selected = complete?.filter(({ labels }) => isSelected(selector, labels));
      if (!selected || selected.length > MAX_SERIES) continue;
      values.set(marker, 1);
      for (const { labels, value } of selected) values.set(seriesName(metric, labels), value);
    }
    return values;
  };
}

/** Returns the values of the selected series at each sample time of an hour. */
function valuesOf({ times, series }: Chunk, selector: Selector): Omit<HistoryPoint, 'at'>[] {
  const marker = series.get(markerOf(selector)) ?? [];
  const selected = [...series].flatMap(([name, values]) => {
    const labels = labelsOf(name);
    const isWanted = metricOf(name) === selector.metric && isSelected(selector, labels);
    return isWanted ? [{ key: JSON.stringify(Object.entries(labels)), values }] : [];
  });
  return times.map((_, index) => {
    if (marker[index] !== 1) return { values: undefined };
    const here = selected.flatMap(({ key, values }) => {
      const value = values[index] as number;
      return Number.isNaN(value) ? [] : [[key, value] as const];
    });
    return { values: new Map(here) };
  });
}

/**
 * Reads the recorded windows of an account. Converts wall-clock times to the monotonic clock. Skips samples from the future or from
 * before a clock step, because their age is unknown.
 */
export function createPast(recorder: Pick<Recorder, 'hours'>, clock: Pick<Clock, 'now' | 'monotonic'>): Past {
  return async (selector, over) => {
    const now = clock.now();
    const marker = markerOf(selector);
    const isWanted = (name: string) => name === marker || name === CLOCK_STEPPED || metricOf(name) === selector.metric;
    let points: HistoryPoint[] = [];
    // The last sample before the window contains the values at its start.
    for await (const hour of recorder.hours(now - over - 2 * SAMPLE_EVERY, now, isWanted)) {
      const stepped = hour.series.get(CLOCK_STEPPED);
      for (const [index, { values }] of valuesOf(hour, selector).entries()) {
        if (stepped?.[index] === 1) points = [];
        points.push({ at: (hour.times[index] as number) - now + clock.monotonic(), values });
      }
    }
    return points;
  };
}
