import { collectorTitle } from '../../collectors/index.ts';
import { grouped, plural, printable } from '../../kit/text.ts';
import { durationText } from '../../rules/checks/words.ts';
import type { AccountReport, Report } from '../../status/api/report.ts';

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

/** Formats the time until the next attempt. */
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
  const read = dataAt === null ? [] : [`shown data from ${timeText(dataAt, now)} or later`];
  return size.length + read.length === 0 ? [] : [[...size, ...read].join('; ')];
}

const sinceText = ({ since }: Problem, now: string) => (since === null ? '' : `, since ${timeText(since, now)}`);

/** Returns the URL of a problem's runbook, or its name if the agent has no `server.externalUrl`. */
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
