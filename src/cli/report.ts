import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { openBase } from '../agent/base.ts';
import { createServing } from '../agent/served.ts';
import { Supervisor } from '../agent/supervisor.ts';
import { collectorTitle } from '../collectors/index.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { type Peer, reportOfPeer } from '../http/peer.ts';
import { withClosing } from '../kit/closing.ts';
import { grouped, plural, printable, printableJson } from '../kit/text.ts';
import { durationText } from '../rules/checks/words.ts';
import { type AccountReport, type HealthVerdict, Report } from '../status/api/report.ts';
import { attachStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import { askAgent } from './ask-agent.ts';
import { configOption } from './config-option.ts';
import { repeated } from './option-values.ts';
import { loadAccounts, report as note, realDeps, type SelectionOptions } from './read-alone.ts';
import { stopSignal } from './until-stopped.ts';

type Problem = Report['agent']['problems'][number];
type Unknown = AccountReport['unknown'][number];

const WIDTH = 80;

/** Wraps a text. Lines after the first are indented twice. */
function wrap(text: string, indent: string): string {
  const lines: string[] = [];
  let line = indent;
  for (const word of text.split(' ')) {
    const next = line.trim() === '' ? line + word : `${line} ${word}`;
    if (next.length > WIDTH && line.trim() !== '') {
      lines.push(line);
      line = indent + indent + word;
    } else line = next;
  }
  return [...lines, line].join('\n');
}

const DATA: Readonly<Record<Unknown['data'], string>> = {
  fresh: 'are current',
  partial: 'are incomplete',
  stale: 'are stale',
  withdrawn: 'are too old to be shown',
  not_read: 'have not been read',
};

/** Formats a time with its age: `2026-11-23T10:00:00Z (5 min ago)`. */
function timeText(iso: string, now: string): string {
  const age = (Date.parse(now) - Date.parse(iso)) / 1000;
  return `${iso.replace(/\.\d+Z$/, 'Z')} (${durationText(Math.max(0, age))} ago)`;
}

function retryText(iso: string | null, now: string): string {
  const seconds = iso === null ? 0 : (Date.parse(iso) - Date.parse(now)) / 1000;
  return seconds > 0 ? `; retried in ${durationText(seconds)}` : '';
}

function unknownText({ collector, data, dataAt, failure, retryAt }: Unknown, now: string): string {
  const complete = data === 'partial' ? '' : 'complete ';
  const last = dataAt === null ? '' : `, last ${complete}read ${timeText(dataAt, now)}`;
  const why = failure === null ? '' : `: ${failure}`;
  return `${collector === null ? 'Its data' : collectorTitle(collector)} ${DATA[data]}${last}${why}${retryText(retryAt, now)}`;
}

function headline({ verdict, accounts, agent }: Report): string {
  const having = (wanted: string) => accounts.filter(({ verdict }) => verdict === wanted).length;
  const [bad, unknown] = [having('problems'), having('unknown')];
  const parts = [
    ...(bad > 0 ? [`${grouped(bad)} with problems`] : []),
    ...(unknown > 0 ? [`${grouped(unknown)} unknown`] : []),
    `${grouped(having('healthy'))} healthy`,
  ];
  const own = agent.verdict === 'healthy' ? '' : `; the agent has ${plural(agent.problems.length, 'problem')}`;
  return `${verdict} (${plural(accounts.length, 'account')}: ${parts.join(', ')}${own})`;
}

function sizeText({ deadLetters, dataAt }: AccountReport, now: string): string[] {
  const size = deadLetters === null ? [] : [plural(deadLetters, 'dead letter')];
  const read = dataAt === null ? [] : [`oldest data from ${timeText(dataAt, now)}`];
  return size.length + read.length === 0 ? [] : [[...size, ...read].join('; ')];
}

const sinceText = ({ since }: Problem, now: string) => (since === null ? '' : `, since ${timeText(since, now)}`);

/** Returns the URL of a problem's runbook, or the runbook's name if the agent has no `server.externalUrl`. */
function runbookOf({ runbook }: Problem, { externalUrl }: Report): string | undefined {
  if (runbook === null) return undefined;
  return externalUrl === null ? `runbook: ${runbook}` : `${externalUrl.replace(/\/$/, '')}/runbooks/${runbook}`;
}

/** Formats a report for a terminal with 80 columns, the verdict first. */
export function textReport(report: Report): string {
  const { now, version, agent, accounts } = report;
  const item = (text: string) => wrap(printable(text), '  ');
  const problem = (each: Problem) => {
    const runbook = runbookOf(each, report);
    return [
      item(`${each.severity}${sinceText(each, now)}: ${each.text}`),
      ...(runbook === undefined ? [] : [`    ${printable(runbook)}`]),
    ];
  };
  const section = (account: AccountReport) => [
    '',
    `${account.account}: ${account.verdict}`,
    ...sizeText(account, now).map(item),
    ...account.problems.flatMap(problem),
    ...account.unknown.map(each => item(`unknown: ${unknownText(each, now)}`)),
  ];
  const ofAgent =
    agent.problems.length === 0 ? [] : ['', `agent: ${agent.verdict}`, ...agent.problems.flatMap(problem)];
  const lines = [
    wrap(headline(report), ''),
    `${now}, delivery-watch ${version}`,
    ...ofAgent,
    ...accounts.flatMap(section),
  ];
  return `${lines.join('\n')}\n`;
}

/** Escapes text for Markdown, so that names cannot add links or mentions. */
const escaped = (text: string) =>
  printable(text)
    .replace(/[\\`*_[\]|~<>&]/g, '\\$&')
    .replace(/@/g, '@\u200b')
    .replace(/:\/\//g, ':\\//');

/** Formats a report as Markdown, for a chat message or a pipeline. */
export function markdownReport(report: Report): string {
  const { now, version, agent, accounts } = report;
  const problem = (each: Problem) => {
    const runbook = runbookOf(each, report);
    const more = runbook === undefined ? '' : /^https?:/.test(runbook) ? ` ([runbook](${runbook}))` : ` (${runbook})`;
    return `- **${each.severity}**${escaped(sinceText(each, now))}: ${escaped(each.text)}${more}`;
  };
  const section = (account: AccountReport) => [
    '',
    `### ${escaped(account.account)}: ${account.verdict}`,
    '',
    ...sizeText(account, now).map(text => `- ${escaped(text)}`),
    ...account.problems.map(problem),
    ...account.unknown.map(each => `- **unknown**: ${escaped(unknownText(each, now))}`),
  ];
  const ofAgent =
    agent.problems.length === 0 ? [] : ['', `### Agent: ${agent.verdict}`, '', ...agent.problems.map(problem)];
  const lines = [
    `## ${headline(report)}`,
    '',
    `${now}, delivery-watch ${version}`,
    ...ofAgent,
    ...accounts.flatMap(section),
  ];
  return `${lines.join('\n')}\n`;
}

const FORMATS = {
  text: textReport,
  markdown: markdownReport,
  json: (report: Report) => `${printableJson(report, 2)}\n`,
};

const EXIT_CODES: Readonly<Record<HealthVerdict, number>> = { healthy: 0, problems: 1, unknown: 3 };

/** Disables the settings by which an agent sends, stores or cancels anything. */
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
    const report = await served.views().report();
    // This process ends before a retry.
    const unretried = (unknown: readonly Unknown[]) => unknown.map(each => ({ ...each, retryAt: null }));
    return { ...report, accounts: report.accounts.map(each => ({ ...each, unknown: unretried(each.unknown) })) };
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
    const found = store && (await askAgent(store, signal, ask));
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

export function reportCommand(): Command {
  const command = new Command('report');
  return command
    .description(
      'report the health of every account, from the running agent that uses the same store; if no agent responds, from one read of the service, which has no checks of changes over time; exit 0: healthy, 1: problems, 3: unknown',
    )
    .addOption(configOption('configuration file of the agent'))
    .option('--account <name>', 'only this account; may be repeated', repeated)
    .addOption(new Option('--format <format>', 'output').choices(Object.keys(FORMATS)).default('text'))
    .action(async (options: SelectionOptions & { readonly format: keyof typeof FORMATS }) => {
      const loaded = loadAccounts(command, options);
      const signal = stopSignal();
      const names = loaded.config.accounts.map(({ name }) => name);
      const report = selected(await readReport(loaded, signal), names);
      process.stdout.write(FORMATS[options.format](report));
      process.exitCode = EXIT_CODES[report.verdict];
    });
}
