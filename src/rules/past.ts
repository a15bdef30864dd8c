import { CLOCK_STEPPED, type RecordedHour, type Recorder, SAMPLE_EVERY } from '../history/recorder.ts';
import { labelsOf, metricOf, seriesName } from '../history/series-name.ts';
import type { Clock } from '../kit/clock.ts';
import { type AlertFacts, isSelected, type Past, windowsOf } from './evidence.ts';
import type { Known } from './history.ts';
import type { AlertCondition, Selector } from './options.ts';

/** Series of a selector that are recorded at most; of one that selects more, nothing is known after a restart. */
const MOST = 1000;

/** Series that is 1 where what a selector selects was known, and is recorded: data that was stale or partial then was not. */
const markerOf = ({ metric, labels }: Selector) => `?${JSON.stringify([metric, labels])}`;

/** What has to be recorded for these conditions, by series. */
export function createSelection(conditions: readonly AlertCondition[], facts: AlertFacts): () => Map<string, number> {
  const selectors = new Map(conditions.flatMap(windowsOf).map(({ selector }) => [markerOf(selector), selector]));
  return () => {
    const values = new Map<string, number>();
    for (const [marker, selector] of selectors) {
      const { metric } = selector;
      const known = facts.isPartial(selector) ? undefined : facts.series(metric);
      const selected = known?.filter(({ labels }) => isSelected(selector, labels));
      if (!selected || selected.length > MOST) continue;
      values.set(marker, 1);
      for (const { labels, value } of selected) values.set(seriesName(metric, labels), value);
    }
    return values;
  };
}

/** Of an hour, what was known of the selected series at each time. */
function knownOf({ times, series }: RecordedHour, selector: Selector): Omit<Known, 'at'>[] {
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
 * Reads the windows of an account's conditions. The store has wall times: they are as old now as the wall clock says. Samples from
 * before it was set, and from the future, are left out: how old they are is not known.
 */
export function createPast(recorder: Pick<Recorder, 'hours'>, clock: Pick<Clock, 'now' | 'monotonic'>): Past {
  return async (selector, over) => {
    const now = clock.now();
    const marker = markerOf(selector);
    const isWanted = (name: string) => name === marker || name === CLOCK_STEPPED || metricOf(name) === selector.metric;
    let known: Known[] = [];
    // One sample before the window says what was true when it began.
    for await (const hour of recorder.hours(now - over - 2 * SAMPLE_EVERY, now, isWanted)) {
      const stepped = hour.series.get(CLOCK_STEPPED);
      for (const [index, { values }] of knownOf(hour, selector).entries()) {
        if (stepped?.[index] === 1) known = [];
        known.push({ at: (hour.times[index] as number) - now + clock.monotonic(), values });
      }
    }
    return known;
  };
}
