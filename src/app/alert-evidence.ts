import type { AlertEvidence, Series } from '../alerts/judge.ts';
import type { AlertCondition, Selector } from '../auto-cancel/rule-options.ts';
import { alertFamilies, decidingRounds } from '../config/alerts.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import type { Sample, Source } from '../metrics/family.ts';
import { ownFamilies } from '../metrics/own.ts';
import type { RoundStatus } from '../model/status.ts';
import { createHistory, type History } from '../scheduler/history.ts';
import type { Account } from './account.ts';

export interface EvidenceDeps {
  readonly config: Config;
  readonly account: Pick<Account, 'name' | 'state' | 'status' | 'isTokenKnown'>;
  readonly sources: () => readonly Source[];
  readonly conditions: readonly AlertCondition[];
  readonly clock: Clock;
}

/** Text that two equal values share. */
const idOf = (value: object) => JSON.stringify(value);

/** Series that conditions look back on, and how far. */
function windowsOf(condition: AlertCondition): { readonly selector: Selector; readonly over: number }[] {
  if (condition.kind === 'growth') return [{ selector: condition, over: condition.over }];
  if (condition.kind !== 'ratio') return [];
  return [condition.part, condition.whole].map(selector => ({ selector, over: condition.over }));
}

const windowId = ({ metric, labels }: Selector, over: number) => idOf([metric, labels, over]);

/** What is said of each round. */
const ROUND_FAMILIES = new Set(
  Object.values(ownFamilies).flatMap(({ name, labels }) =>
    (labels as readonly string[]).includes('round') ? [name] : [],
  ),
);

/** What this process has not read yet, though there is something to read. */
const isUnread = ({ dataAt, idle }: RoundStatus) => dataAt === undefined && idle !== 'not_due';

/** As they are exposed: half a surrogate pair would be another label to whoever is told. */
function toSeries({ labels, value }: Sample): Series {
  const named = Object.entries(labels).flatMap(([name, text]) =>
    text === undefined ? [] : [[name, text.toWellFormed()] as const],
  );
  return { key: idOf(named), labels: Object.fromEntries(named), value };
}

/** What the board and the agent's own numbers say of one account, and the histories of those series that conditions name. */
export function createEvidence({ config, account, sources, conditions, clock }: EvidenceDeps): AlertEvidence & {
  /** Takes what is known now into the histories: once before each evaluation. */
  record(): void;
  /**
   * Whether a number of rounds may be other than it seems, of the series with these labels or of any: after a restart it
   * says nothing good until the round is complete.
   */
  isDoubtful(selector: Selector, labels?: Readonly<Record<string, string>>): boolean;
} {
  const windows = new Map<string, { readonly selector: Selector; readonly history: History }>();
  for (const { selector, over } of conditions.flatMap(windowsOf)) {
    windows.set(windowId(selector, over), { selector, history: createHistory(over) });
  }
  /** Samples are made anew only when they are other ones. */
  const made = new Map<Source, { readonly revision: unknown; readonly samples: ReturnType<Source['samples']> }>();

  function samplesOf(source: Source): ReturnType<Source['samples']> {
    const revision = source.revision();
    const last = made.get(source);
    if (last && last.revision === revision) return last.samples;
    const samples = source.samples();
    made.set(source, { revision, samples });
    return samples;
  }

  /** Whether what is shown of a collector is complete and not too old: nothing is known before that, and after. */
  function isFresh(collector: string): boolean {
    const status = account.state(collector)?.status();
    const deciding = decidingRounds(collector, config);
    return (
      status !== undefined &&
      !status.withdrawn &&
      status.rounds.every(({ round, dataAt, stale }) => !deciding.includes(round) || (dataAt !== undefined && !stale))
    );
  }

  /** Whether rows of what is shown of a family could not be read. */
  function isPartial({ metric }: Selector): boolean {
    const collector = alertFamilies.get(metric)?.collector;
    const rounds = collector === undefined ? [] : (account.state(collector)?.status().rounds ?? []);
    return rounds.some(({ partial = false }) => partial);
  }

  const rounds = () =>
    account.status().collectors.flatMap(({ collector, rounds }) => rounds.map(status => ({ collector, status })));

  /** Whether a number that is always there says what is: at first it only says what was, or nothing. */
  function isKnown(metric: string): boolean {
    const collector = alertFamilies.get(metric)?.collector;
    if (collector !== undefined) return isFresh(collector);
    if (metric === ownFamilies.tokenRejected.name) return account.isTokenKnown();
    if (metric !== ownFamilies.up.name) return true;
    const all = rounds();
    return (
      all.some(({ status }) => status.success === false) ||
      all.every(({ status: { success, idle } }) => success !== undefined || idle !== undefined)
    );
  }

  /** How long the data of a round has been stale. */
  function staleFor({ labels }: Series): number | undefined {
    const { collector = '', round = '' } = labels;
    return account.state(collector)?.staleFor(round);
  }

  function series({ metric, labels }: Selector): readonly Series[] | undefined {
    if (!isKnown(metric)) return undefined;
    const wanted = Object.entries(labels).filter(([label]) => label !== 'account');
    return sources()
      .filter(source => source.account === account.name && source.families.some(({ name }) => name === metric))
      .flatMap(source => samplesOf(source).get(metric) ?? [])
      .map(toSeries)
      .filter(one => wanted.every(([label, values]) => values.includes(one.labels[label] ?? '')))
      .map(one => (metric === ownFamilies.dataStale.name ? { ...one, staleFor: staleFor(one) } : one));
  }

  return {
    get now() {
      return clock.now();
    },
    series,
    isDoubtful({ metric, labels: wanted }, labels) {
      if (!ROUND_FAMILIES.has(metric)) return false;
      return rounds().some(({ collector, status }) => {
        const own: Readonly<Record<string, string>> = { collector, round: status.round };
        const isMeant = Object.entries(own).every(
          ([name, value]) => (wanted[name]?.includes(value) ?? true) && (labels?.[name] ?? value) === value,
        );
        return isMeant && isUnread(status);
      });
    },
    isPartial,
    firsts: (selector, over) => windows.get(windowId(selector, over))?.history.firsts(clock.monotonic()),
    record() {
      const at = clock.monotonic();
      for (const { selector, history } of windows.values()) {
        // What rose from a part to the whole did not grow.
        const known = isPartial(selector) ? undefined : series(selector);
        history.record(at, known && new Map(known.map(({ key, value }) => [key, value])));
      }
    },
  };
}
