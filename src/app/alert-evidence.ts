import { alertFamilies, decidingRounds } from '../config/alerts.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import type { Sample, Source } from '../metrics/family.ts';
import type { AlertEvidence, Series } from '../rules/alert-conditions.ts';
import type { AlertCondition, Selector } from '../rules/options.ts';
import { createHistory, type History } from '../scheduler/history.ts';
import type { Account } from './account.ts';

export interface EvidenceDeps {
  readonly config: Config;
  readonly account: Pick<Account, 'name' | 'slot'>;
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
    const status = account.slot(collector)?.status();
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
    const rounds = collector === undefined ? [] : (account.slot(collector)?.status().rounds ?? []);
    return rounds.some(({ partial = false }) => partial);
  }

  function series({ metric, labels }: Selector): readonly Series[] | undefined {
    const collector = alertFamilies.get(metric)?.collector;
    if (collector !== undefined && !isFresh(collector)) return undefined;
    const wanted = Object.entries(labels).filter(([label]) => label !== 'account');
    return sources()
      .filter(source => source.account === account.name && source.families.some(({ name }) => name === metric))
      .flatMap(source => samplesOf(source).get(metric) ?? [])
      .map(toSeries)
      .filter(one => wanted.every(([label, values]) => values.includes(one.labels[label] ?? '')));
  }

  return {
    get now() {
      return clock.now();
    },
    series,
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
