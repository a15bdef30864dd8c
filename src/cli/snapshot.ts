import { Command, Option } from 'commander';
import type { PartsDeps } from '../agent/base.ts';
import type { LoadedConfig } from '../config/load.ts';
import { withClosing } from '../kit/closing.ts';
import { escapedJson, printable, printableJson } from '../kit/text.ts';
import { createExposition } from '../metrics/exposition.ts';
import { onlyFamilies, type Source } from '../metrics/family.ts';
import { createShownSources } from '../metrics/shown-sources.ts';
import { configOption } from './config-option.ts';
import { loadAccounts, openInMemory, realDeps } from './read-alone.ts';
import { toTable } from './table.ts';
import { stopSignal } from './until-stopped.ts';

/** `requests`: number of requests with a response. */
interface Progress {
  readonly roundsDone: number;
  readonly rounds: number;
  readonly requests: number;
}

const gaugesOf = (source: Source): Source => onlyFamilies(source, ({ type }) => type === 'gauge');

/** Runs every round of every account once. Failed accounts are part of the result. */
export function collectOnce(
  loaded: LoadedConfig,
  deps: PartsDeps,
  options: { readonly signal: AbortSignal; readonly onProgress: (progress: Progress) => void },
) {
  return withClosing(async closing => {
    const opened = await openInMemory(loaded, deps, closing);
    // Omit counters: all of them start at zero.
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
    report();
    await Promise.all(
      rounds.map(async ({ run }) => {
        await run(options.signal);
        roundsDone += 1;
        report();
      }),
    );
    options.signal.throwIfAborted();
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
      text: (await createExposition(sources).render({ scope: 'everything', format: 'text', gzip: false })).toString(),
    };
  });
}

const BAR = 24;

/** Replaces the progress line on a terminal. An empty text removes it. */
function showProgress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`);
}

function progressLine({ roundsDone, rounds, requests }: Progress): string {
  const done = rounds === 0 ? BAR : Math.floor((roundsDone / rounds) * BAR);
  return `[${'#'.repeat(done)}${'.'.repeat(BAR - done)}] ${roundsDone}/${rounds} rounds, ${requests} requests`;
}

function formatValue(metric: string, value: number): string {
  return metric.endsWith('_timestamp_seconds') ? new Date(value * 1000).toISOString() : String(value);
}

function toText({ samples, accounts }: Awaited<ReturnType<typeof collectOnce>>): string {
  const rows = samples.map(({ account, metric, labels, value }) => [
    account,
    metric,
    Object.values(labels).join(', '),
    formatValue(metric, value),
  ]);
  const failures = accounts.flatMap(({ account, collectors }) =>
    collectors.flatMap(({ collector, rounds }) =>
      rounds.flatMap(({ failure }) =>
        failure ? [printable(`${account}: ${collector} failed: ${failure.message} (${failure.reason})`)] : [],
      ),
    ),
  );
  return [toTable(['account', 'metric', 'labels', 'value'], rows, ['value']), ...failures].join('\n');
}

interface Options {
  readonly config: string;
  readonly json?: boolean;
  readonly prometheus?: boolean;
}

export function snapshotCommand(): Command {
  return new Command('snapshot')
    .description('read all data of all accounts once and print it; exit 1 if an account fails')
    .addOption(configOption())
    .addOption(new Option('--json', 'print JSON').conflicts('prometheus'))
    .addOption(new Option('--prometheus', 'print Prometheus text format').conflicts('json'))
    .action(async ({ json, prometheus, ...options }: Options, command: Command) => {
      const snapshot = await collectOnce(loadAccounts(command, options), realDeps, {
        signal: stopSignal(),
        onProgress: progress => showProgress(progressLine(progress)),
      });
      showProgress('');
      const { text, accounts, samples } = snapshot;
      if (prometheus) process.stdout.write(process.stdout.isTTY ? escapedJson(text) : text);
      else if (json) process.stdout.write(`${printableJson({ accounts, samples }, 2)}\n`);
      else process.stdout.write(`${toText(snapshot)}\n`);
      const failed = accounts.filter(({ up }) => !up).map(({ account }) => account);
      if (failed.length > 0) throw new Error(`not complete: ${failed.join(', ')}`);
    });
}
