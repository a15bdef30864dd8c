import { filterFamilies, isDeciding, isOptional } from '../collectors/index.ts';
import { first, upTo } from '../history/points.ts';
import { type Recorder, SHORT } from '../history/recorder.ts';
import { labelsOf, metricOf, seriesName } from '../history/series-name.ts';
import type { Clock } from '../kit/clock.ts';
import { textOf } from '../kit/record.ts';
import type { Sample, Source } from '../metrics/family.ts';
import { ownFamilies } from '../metrics/own.ts';
import type { RoundStatus } from '../model/status.ts';
import type { HeartbeatAccount } from '../notify/heartbeat.ts';
import type { CollectorState } from '../scheduler/board.ts';
import type { AlertEvidence, AlertFacts, Series } from './evaluate-condition.ts';
import { alertFamilies } from './families.ts';
import { type AlertCondition, type Selector, selectorsOf } from './options.ts';

export interface RuledAccount extends Omit<HeartbeatAccount, 'isTokenRejected'> {
  state(collector: string): CollectorState | undefined;
}

const ROUND_FAMILIES = new Set(
  Object.values(ownFamilies).flatMap(({ name, labels }) =>
    (labels as readonly string[]).includes('round') ? [name] : [],
  ),
);

const FILTER_FAMILIES = new Set(Object.values(filterFamilies).map(({ name }) => name));

/** Whether this process has not completed this round yet, although there is something to read. */
const isUnread = ({ dataAt, idle }: RoundStatus) => dataAt === undefined && idle !== 'not_due';

function toSeries({ labels, value }: Sample): Series {
  const named = Object.entries(labels).flatMap(([name, text]) => (text === undefined ? [] : [[name, text] as const]));
  return { labels: Object.fromEntries(named), value };
}

export const isSelected = ({ labels }: Selector, own: Series['labels']): boolean =>
  Object.entries(labels).every(([label, values]) => label === 'account' || values.includes(textOf(own, label)));

/** Returns the facts of one account. `sources` may include sources of other accounts. */
export function createAlertFacts(account: RuledAccount, sources: readonly Source[]): AlertFacts {
  const own = sources.filter(source => source.account === account.name);
  const made = new Map<Source, { readonly revision: unknown; readonly samples: ReturnType<Source['samples']> }>();

  function samplesOf(source: Source): ReturnType<Source['samples']> {
    const revision = source.revision();
    const last = made.get(source);
    if (last && last.revision === revision) return last.samples;
    const samples = source.samples();
    made.set(source, { revision, samples });
    return samples;
  }

  /** Whether all rounds that a collector's gauges depend on have current data. */
  function isFresh(collector: string): boolean {
    const state = account.state(collector);
    // Facts from before a reload may belong to other settings.
    return (
      state?.visible().now !== undefined &&
      state
        .status()
        .rounds.every(({ round, dataAt, stale }) => !isDeciding(collector, round) || (dataAt !== undefined && !stale))
    );
  }

  const rounds = () =>
    account.status().collectors.flatMap(({ collector, rounds }) => rounds.map(status => ({ collector, status })));

  /** Whether a metric has a current value. After startup, exposed values may be restored or initial ones. */
  function isAvailable(metric: string): boolean {
    const collector = alertFamilies.get(metric)?.collector;
    if (collector !== undefined) return isFresh(collector);
    if (metric === ownFamilies.tokenRejected.name) return account.isTokenKnown();
    if (metric !== ownFamilies.up.name) return true;
    const all = rounds().filter(({ collector }) => !isOptional(collector));
    return (
      all.some(({ status }) => status.success === false) ||
      all.every(({ status: { success, idle } }) => success !== undefined || idle !== undefined)
    );
  }

  function withStaleFor(series: Series): Series {
    const { collector = '', round = '' } = series.labels;
    return { ...series, staleFor: account.state(collector)?.staleFor(round) };
  }

  return {
    series(selector) {
      const { metric } = selector;
      if (!isAvailable(metric)) return undefined;
      const series = own
        .filter(source => source.families.some(({ name }) => name === metric))
        .flatMap(source => samplesOf(source).get(metric) ?? [])
        .map(toSeries)
        .filter(({ labels }) => isSelected(selector, labels));
      return metric === ownFamilies.dataStale.name ? series.map(withStaleFor) : series;
    },
    isPartial(selector) {
      const collector = alertFamilies.get(selector.metric)?.collector;
      const status = collector === undefined ? undefined : account.state(collector)?.status();
      if (!status) return false;
      const { rounds, failedFilters = [] } = status;
      const wanted = FILTER_FAMILIES.has(selector.metric) ? (selector.labels.filter ?? 'all') : [];
      const isMissing = failedFilters.some(({ name }) => wanted === 'all' || wanted.includes(name));
      return isMissing || rounds.some(({ partial = false }) => partial);
    },
    isInconclusive({ metric, labels: wanted }, labels) {
      if (!ROUND_FAMILIES.has(metric)) return false;
      return rounds().some(({ collector, status }) => {
        const own: Readonly<Record<string, string>> = { collector, round: status.round };
        const isSelected = Object.entries(own).every(
          ([name, value]) => (wanted[name]?.includes(value) ?? true) && (labels?.[name] ?? value) === value,
        );
        return isSelected && isUnread(status);
      });
    },
  };
}

/** Maximum number of series of a selector that are stored. If a selector has more, all its series are only in memory. */
const MAX_SERIES = 1000;

/** The part of an account's history that windows use. */
export type WindowHistory = Pick<Recorder, 'points' | 'note' | 'watch'>;

/** Returns the series for which a condition needs past values, and the length of its window (ms). */
export const windowsOf = (condition: AlertCondition) =>
  'over' in condition ? selectorsOf(condition).map(selector => ({ selector, over: condition.over })) : [];

/** Returns the name of a series that is 1 if the selected series were recorded, and 0 if their data was stale or incomplete. */
const markerOf = ({ metric, labels }: Selector) => `?${JSON.stringify([metric, labels])}`;

/** Returns a function that selects the current values for windows, by series. `unstored`: series that must not be stored. */
export function createSelection(windows: ReturnType<typeof windowsOf>, facts: AlertFacts) {
  const selectors = new Map(windows.map(({ selector }) => [markerOf(selector), selector]));
  return () => {
    const values = new Map<string, number>();
    const [stored, unstored] = [new Set<string>(), new Set<string>()];
    for (const [marker, selector] of selectors) {
      const selected = facts.isPartial(selector) ? undefined : facts.series(selector);
      values.set(marker, selected ? 1 : 0);
      const names = (selected ?? []).map(({ labels, value }) => {
        const name = seriesName(selector.metric, labels);
        values.set(name, value);
        return name;
      });
      for (const name of [marker, ...names]) (names.length > MAX_SERIES ? unstored : stored).add(name);
    }
    return { values, unstored: unstored.difference(stored) };
  };
}

/** Creates the evidence for an account's conditions. Without `history`, conditions over windows are unknown. */
export function createAlertEvidence(
  conditions: readonly AlertCondition[],
  facts: AlertFacts,
  clock: Pick<Clock, 'now'>,
  history?: WindowHistory,
): AlertEvidence & {
  /** Adds the current values of short windows to the history, which the first call prepares. Rejects with StoreError. */
  prepare(): Promise<void>;
} {
  const windows = conditions.flatMap(windowsOf);
  const short = windows.filter(({ over }) => over < SHORT);
  const selection = createSelection(short, facts);
  let isPrepared = false;

  const markers = new Set(windows.map(({ selector }) => markerOf(selector)));
  const isWatched = (name: string) =>
    markers.has(name) ||
    windows.some(({ selector }) => metricOf(name) === selector.metric && isSelected(selector, labelsOf(name)));

  return {
    get now() {
      return clock.now();
    },
    ...facts,
    window(selector, over) {
      const now = clock.now();
      const start = now - over;
      if (!history || first(history.points(markerOf(selector), start, now), start) !== 1) return undefined;
      const points = ({ labels, value }: Series) =>
        upTo(history.points(seriesName(selector.metric, labels), start, now), { at: now, value });
      return { start, points };
    },
    async prepare() {
      if (short.length > 0) history?.note(selection().values);
      if (isPrepared) return;
      isPrepared = true;
      await history?.watch(Math.max(0, ...windows.map(({ over }) => over)), isWatched);
    },
  };
}
