import { filterFamilies, isDeciding, isOptional } from '../collectors/index.ts';
import type { Sample, Source } from '../metrics/family.ts';
import { ownFamilies } from '../metrics/own.ts';
import type { AccountStatus, RoundStatus } from '../model/status.ts';
import { labelOf } from '../notify/notice.ts';
import type { CollectorState } from '../scheduler/board.ts';
import type { AlertFacts, Series } from './evaluate-condition.ts';
import { alertFamilies } from './families.ts';
import type { Selector } from './options.ts';

export interface RuledAccount {
  readonly name: string;
  state(collector: string): CollectorState | undefined;
  readonly status: () => AccountStatus;
  /** Whether the service has accepted or rejected the token since the account was opened. */
  isTokenKnown(): boolean;
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
  Object.entries(labels).every(([label, values]) => label === 'account' || values.includes(labelOf(own, label)));

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
