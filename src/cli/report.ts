import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { openBase } from '../agent/base.ts';
import { createServing } from '../agent/served.ts';
import { Supervisor } from '../agent/supervisor.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { type Peer, reportOfPeer } from '../http/peer.ts';
import { withClosing } from '../kit/closing.ts';
import { printableJson } from '../kit/text.ts';
import { type AccountReport, type HealthVerdict, Report } from '../status/api/report.ts';
import { attachStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import { askAgent } from './ask-agent.ts';
import { configOption } from './config-option.ts';
import { ExitStatus } from './exit-status.ts';
import { repeated } from './option-values.ts';
import { loadAccounts, report as note, realDeps, type SelectionOptions } from './read-alone.ts';
import { markdownReport, textReport } from './report/text.ts';
import { stopSignal } from './until-stopped.ts';

const FORMATS = {
  text: textReport,
  markdown: markdownReport,
  json: (report: Report) => `${printableJson(report, 2)}\n`,
};

const EXIT_CODES: Readonly<Record<HealthVerdict, number>> = { healthy: 0, problems: 1, unknown: 3 };

/** Disables everything in a configuration that sends, stores or cancels. */
const passive = (config: Config): Config => ({
  ...config,
  log: { ...config.log, level: 'silent' },
  store: { ...config.store, kind: 'memory' },
  heartbeat: null,
  tracing: { ...config.tracing, enabled: false },
  alerts: { ...config.alerts, enabled: false, notifiers: [] },
  autoCancel: { ...config.autoCancel, mode: 'off', rules: [] },
});

function collectOnce(loaded: LoadedConfig, signal: AbortSignal) {
  return withClosing(async closing => {
    const config = { ...loaded, config: passive(loaded.config) };
    const base = await openBase(config, realDeps, closing);
    const agent = await Supervisor.open(config, base);
    closing.add('accounts', () => agent.close());
    const rounds = agent.state().running.flatMap(({ account }) => account.rounds);
    await Promise.all(rounds.map(({ run }) => run(signal)));
    signal.throwIfAborted();
    const { served } = createServing(agent, base);
    return served.views().report();
  });
}

/** Opens the agent's store; undefined if it is missing or in memory. */
async function storeOf({ config }: LoadedConfig): Promise<Store | undefined> {
  try {
    return await attachStore(config.store, { env: process.env });
  } catch (error) {
    const reason = error instanceof Error && 'reason' in error ? error.reason : undefined;
    if (reason !== 'missing' && reason !== 'unshared') throw error;
    return undefined;
  }
}

/** Returns the report of a running agent. If none responds, reads every account once. Rejects with StoreError. */
function readReport(loaded: LoadedConfig, signal: AbortSignal): Promise<Report> {
  return withClosing(async closing => {
    const store = await storeOf(loaded);
    if (store) closing.add('store', () => store.close());
    // The address may now belong to another program or version.
    const ask = async (peer: Peer) => Report.parse(await reportOfPeer(peer, signal));
    const found = store && (await askAgent(store, loaded.config.store.kind, signal, ask));
    if (found) return found;
    const { kind, path } = loaded.config.store;
    const missing = store || kind !== 'sqlite' ? '' : ` through the store ${resolve(path)}, which does not exist`;
    note(
      `No running agent responded${missing}: this command reads the accounts once. Checks of changes over time have no result.`,
    );
    return collectOnce(loaded, signal);
  });
}

/** Reports a configured account that the running agent does not have. */
const missing = (account: string): AccountReport => ({
  account,
  verdict: 'unknown',
  problems: [],
  unknown: [
    {
      collector: null,
      data: 'not_read',
      dataAt: null,
      failure: 'the running agent has no account of this name',
      retryAt: null,
    },
  ],
  dataAt: null,
  deadLetters: null,
});

function selected(report: Report, names: readonly string[]): Report {
  const accounts = names.map(name => report.accounts.find(({ account }) => account === name) ?? missing(name));
  const verdicts = [report.agent, ...accounts].map(({ verdict }) => verdict);
  const verdict = (['problems', 'unknown'] as const).find(each => verdicts.includes(each)) ?? 'healthy';
  return { ...report, accounts, verdict };
}

interface Options extends SelectionOptions {
  readonly format: keyof typeof FORMATS;
}

export function reportCommand(): Command {
  const command = new Command('report');
  return command
    .description(
      'report the health of every account; asks the running agent that uses the same store, or reads the service once if no agent responds; exit 0: healthy, 1: problems, 3: unknown',
    )
    .addOption(configOption('configuration file of the agent'))
    .option('--account <name>', 'only this account; may be repeated', repeated)
    .addOption(new Option('--format <format>', 'output').choices(Object.keys(FORMATS)).default('text'))
    .action(async (options: Options) => {
      const loaded = loadAccounts(command, options);
      const signal = stopSignal();
      const names = loaded.config.accounts.map(({ name }) => name);
      const report = selected(await readReport(loaded, signal), names);
      process.stdout.write(FORMATS[options.format](report));
      const code = EXIT_CODES[report.verdict];
      if (code !== 0) throw new ExitStatus(code);
    });
}
