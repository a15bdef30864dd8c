import { labelsOf, metricOf } from '../history/series-name.ts';
import type { Clock } from '../kit/clock.ts';
import { formatDuration, parseDuration } from '../kit/duration.ts';
import { createYielder } from '../kit/yielder.ts';
import type { AccountHistory, RecordedSeries } from '../model/history.ts';
import type { StoreOptions } from '../store/options.ts';
import type { HistoryView } from './api/history.ts';
import type { Views } from './served.ts';
import { iso } from './values.ts';

/** Selects evenly spaced samples including the last one, and the start of each gap, so that no line crosses a gap. */
function chosen({ times, series }: RecordedSeries, points: number): number[] {
  const columns = [...series.values()];
  const isEmpty = (index: number) => columns.every(values => values[index] === null);
  const every = Math.ceil(times.length / points);
  const isKept = (index: number) =>
    (times.length - 1 - index) % every === 0 || (isEmpty(index) && (index === 0 || !isEmpty(index - 1)));
  return times.flatMap((_, index) => (isKept(index) ? [index] : []));
}

export function createHistoryView(
  historyOf: (account: string) => AccountHistory | undefined,
  { keep }: StoreOptions['history'],
  clock: Pick<Clock, 'now'>,
): Views['history'] {
  return async (account, { family, over, points }) => {
    const history = historyOf(account);
    if (!history) return undefined;
    const now = clock.now();
    const from = now - (parseDuration(over) as number);
    const recorded = await history.read({ from, to: now, families: family });
    const indices = chosen(recorded, points);
    const turns = createYielder();
    const series: HistoryView['series'] = [];
    for (const [name, values] of recorded.series) {
      const chosenValues = indices.map(index => values[index] ?? null);
      series.push({ family: metricOf(name), labels: labelsOf(name), values: chosenValues });
      await turns.pass();
    }
    return {
      now: iso(now),
      account,
      keptFor: formatDuration(keep),
      times: indices.map(index => (recorded.times[index] as number) / 1000),
      series,
    };
  };
}
