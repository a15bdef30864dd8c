import { openAccounts, type PartsDeps } from '../agent/parts.ts';
import { createShownSources } from '../agent/shown-sources.ts';
import type { DlqGroup } from '../collectors/index.ts';
import type { LoadedConfig } from '../config/load.ts';
import { withClosing } from '../kit/closing.ts';
import { createExposition } from '../metrics/exposition.ts';
import { onlyFamilies, type Source } from '../metrics/family.ts';
import type { AccountStatus } from '../model/status.ts';

/** How far a collection is. */
export interface Progress {
  readonly roundsDone: number;
  readonly rounds: number;
  /** Requests that have been answered, all accounts together. */
  readonly requests: number;
}

/** What one complete collection found. */
export interface Snapshot {
  readonly accounts: readonly AccountStatus[];
  /** Every sample of what the service said, by account. */
  readonly samples: readonly {
    readonly metric: string;
    readonly account: string;
    readonly labels: Readonly<Record<string, string | undefined>>;
    readonly value: number;
  }[];
  /** Kinds of dead letters by account, the largest first: what stands behind the label `group`. */
  readonly groups: readonly (DlqGroup & { readonly account: string })[];
  /** All that /metrics would say of the accounts, as Prometheus text. */
  readonly text: string;
}

const gaugesOf = (source: Source): Source => onlyFamilies(source, ({ type }) => type === 'gauge');

/** Runs every round of every account once. An account that fails is part of the answer. */
export function collectOnce(
  loaded: LoadedConfig,
  deps: PartsDeps,
  options: { readonly signal: AbortSignal; readonly onProgress: (progress: Progress) => void },
): Promise<Snapshot> {
  return withClosing(async closing => {
    // It remembers nothing, and shall not keep a running agent's store from it.
    const store = { ...loaded.config.store, kind: 'memory' as const };
    const opened = await openAccounts({ ...loaded, config: { ...loaded.config, store } }, deps, closing);
    // What only rises has just begun: it would be nothing but zeros.
    const accounts = opened.map(account => ({
      ...account,
      facts: account.facts.map(gaugesOf),
      sources: account.sources.map(source => (account.facts.includes(source) ? gaugesOf(source) : source)),
    }));
    const rounds = accounts.flatMap(account => account.rounds);
    let roundsDone = 0;
    const report = () =>
      options.onProgress({
        roundsDone,
        rounds: rounds.length,
        requests: accounts.reduce((sum, account) => sum + account.spent().requests, 0),
      });
    const ticking = new AbortController();
    const ticker = (async () => {
      for (;;) {
        report();
        await deps.clock.sleep(200, ticking.signal);
      }
    })().catch(() => undefined);
    await Promise.all(
      rounds.map(async ({ run }) => {
        await run(options.signal);
        roundsDone += 1;
      }),
    );
    ticking.abort();
    await ticker;
    options.signal.throwIfAborted();
    report();
    const facts = accounts.flatMap(account => account.facts);
    const sources = createShownSources()(
      accounts.flatMap(account => account.sources),
      loaded.config.accounts,
    );
    return {
      accounts: accounts.map(account => account.status()),
      samples: facts.flatMap(source =>
        [...source.samples()].flatMap(([metric, samples]) =>
          samples.map(({ labels, value }) => ({ metric, account: source.account ?? '', labels, value })),
        ),
      ),
      groups: accounts.flatMap(({ name, dlqFacts }) =>
        (dlqFacts()?.groups.largest ?? []).map(group => ({ account: name, ...group })),
      ),
      text: createExposition(sources).render({ scope: 'everything', format: 'text', gzip: false }).toString(),
    };
  });
}
