import { userInfo } from 'node:os';
import { Argument, Command } from 'commander';
import {
  askAgent,
  BREAKERS,
  detailOf,
  type Explanation,
  type JournalLine,
  journalOf,
  type Command as Order,
  type PendingAction,
  pendingOf,
  type StopResult,
} from '../app/ask-agent.ts';
import { loadStoreSettings } from '../config/load.ts';
import { type Clock, systemClock } from '../kit/clock.ts';
import { formatDuration } from '../kit/duration.ts';
import { printable } from '../kit/text.ts';
import { durationOption } from './option-values.ts';
import { toTable } from './table.ts';
import { stopSignal } from './until-stopped.ts';

interface Options {
  readonly config: string;
  readonly json?: boolean;
  readonly account?: string;
  readonly since?: number;
  readonly reason?: string;
  readonly by?: string;
}

const print = (text: string) => void process.stdout.write(`${text}\n`);
const iso = (at: number) => new Date(at).toISOString();

/** Clock of the agent that gets the commands. */
interface AgentTime {
  readonly clock: Clock;
  /** How much faster than real time it runs; default 1. */
  readonly speed?: number;
}

/** Who gives a command, without `--by`. */
function whoAmI(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

const QUEUED: readonly Order['kind'][] = ['pause', 'resume', 'reset-breaker'];

/** What the agent answers; undefined when none runs and the command waits for the next. */
async function order(file: string, command: Order, time: AgentTime): Promise<unknown> {
  const deps = { env: process.env, ...time, signal: stopSignal() };
  const answer = await askAgent(loadStoreSettings(file), command, deps);
  if (answer === 'no_agent') {
    if (!QUEUED.includes(command.kind))
      throw new Error('no agent answered: is one running with this store, and autoCancel.mode not off?');
    print('no agent answered: the next one to start executes this before anything else');
    return undefined;
  }
  if (!answer.ok) throw new Error(answer.why);
  const { missing = [] } = answer;
  const later = QUEUED.includes(command.kind)
    ? ': the replica that holds them next executes this before anything else'
    : '';
  if (missing.length > 0) process.stderr.write(`no answer in time from ${missing.map(printable).join(', ')}${later}\n`);
  return answer.result ?? {};
}

/** When and why, and by which operator, if it was one. */
const wordsOf = ({ at, by, reason }: NonNullable<StopResult['before']>) =>
  `since ${iso(at)}${by === undefined ? '' : ` by ${printable(by)}`}: ${printable(reason)}`;

/** Sends pause, resume or reset-breaker, and prints what it changed. A command that changes nothing succeeds. */
async function orderStop(
  file: string,
  command: Order,
  time: AgentTime,
  say: (before: string | undefined) => string,
): Promise<void> {
  const done = (await order(file, command, time)) as StopResult | undefined;
  if (done) print(say(done.before && wordsOf(done.before)));
}

const SIGNS = { true: 'yes', false: 'NO', unknown: '?' } as const;

function explanationText(found: Explanation): string {
  const { firstSeenAt, lastSeenAt, findings, held, paused, attempts, outcome } = found;
  const seen = formatDuration(Math.floor((lastSeenAt - firstSeenAt) / 1000) * 1000);
  const lines = [
    `${found.account}: entry ${printable(found.dlqId ?? found.messageId ?? '(without an id)')}, action ${found.action ?? '-'}`,
    `seen in ${found.snapshots} complete walks over ${seen}: ${iso(firstSeenAt)} to ${iso(lastSeenAt)}`,
  ];
  for (const [index, { rule, verdict, reason, predicates }] of findings.entries()) {
    const word = index === 0 ? `mode ${found.owner?.mode}` : 'shadowed by the rule above';
    lines.push('', `rule ${rule} (${word}): ${verdict}${reason === verdict ? '' : `, because of ${reason}`}`);
    const rows = predicates.map(({ name, holds, found, asked }) => [SIGNS[`${holds}`], name, found, asked]);
    lines.push(toTable(['holds', 'predicate', 'found', 'asked'], rows));
  }
  if (findings.length === 0) lines.push('', 'no rule matches it: it is never cancelled');
  if (held !== undefined) lines.push('', `not cancelled now: ${held}`);
  if (paused) lines.push('', `auto-cancel is paused ${wordsOf(paused)}`);
  if (attempts > 0 || outcome) lines.push('', `attempts: ${attempts}, outcome: ${outcome ?? 'none final yet'}`);
  return lines.join('\n');
}

function journalRow(line: JournalLine): string[] {
  const rule = 'rule' in line ? line.rule : '';
  const id = 'target' in line ? line.target.id : '';
  return [iso(line.at), line.account, line.step, rule, line.action?.slice(0, 12) ?? '', id, detailOf(line)];
}

/** The command that approves it. The whole id is valid with any number of replicas. */
const approval = ({ action }: PendingAction, config: string) =>
  `delivery-watch auto-cancel approve ${action} --config ${/^[\w./-]+$/.test(config) ? config : `'${config.replaceAll("'", "'\\''")}'`}`;

function pendingText(all: readonly PendingAction[], config: string): string {
  const rows = all.map(({ account, action, rule, dlqId, url, requestedAt, expiresAt }) => [
    account,
    action,
    rule,
    dlqId ?? '-',
    url ?? '-',
    iso(requestedAt),
    iso(expiresAt),
  ]);
  const table = toTable(['account', 'action', 'rule', 'dlqId', 'url', 'requested', 'expires'], rows);
  return [table, '', 'To approve:', ...all.map(each => `  ${approval(each, config)}`)].join('\n');
}

const sub = (name: string, description: string) =>
  new Command(name).description(description).requiredOption('--config <file>', 'configuration file of the agent');

const stopping = (name: string, description: string) =>
  sub(name, description)
    .requiredOption('--reason <text>', 'reason for the journal')
    .option('--by <name>', 'operator for the journal; default: the system user');

export function autoCancelCommand(time: AgentTime = { clock: systemClock }): Command {
  const command = new Command('auto-cancel')
    .description('explain decisions, list and approve actions, print the journal, pause, resume and reset breakers')
    .exitOverride();
  const commands = [
    sub('explain', 'show how every rule judges one entry and what prevents its cancel; exit 1 if it is not tracked')
      .argument('<dlqId>', 'dlqId or messageId of the entry')
      .option('--account <name>', 'only this account')
      .option('--json', 'as JSON')
      .action(async (dlqId: string, { config, account, json }: Options) => {
        const found = (await order(config, { kind: 'explain', dlqId, account }, time)) as Explanation[];
        if (found.length === 0) {
          throw new Error(
            `no failure callback of ${dlqId} is tracked: it was not in progress at the last complete walk, no walk has completed yet (see the log of the agent), or no rule tracks it`,
          );
        }
        print(json ? JSON.stringify(found, null, 2) : found.map(explanationText).join('\n\n'));
      }),
    sub(
      'journal',
      'print what was marked, planned, sent and answered; read from the store, with or without a running agent',
    )
      .option('--since <duration>', 'only entries from the last DURATION, such as 24h', durationOption)
      .option('--json', 'one JSON object per line, with the evidence')
      .action(async ({ config, since, json }: Options) => {
        const from = since === undefined ? Number.NEGATIVE_INFINITY : time.clock.now() - since;
        const lines = await journalOf(loadStoreSettings(config, true), process.env, from);
        if (json) for (const line of lines) print(JSON.stringify(line));
        else if (lines.length === 0) print('the journal is empty');
        else print(toTable(['time', 'account', 'step', 'rule', 'action', 'id', ''], lines.map(journalRow)));
      }),
    sub('pending', 'list actions that wait for approval; read from the store, with or without a running agent')
      .option('--json', 'as JSON')
      .action(async ({ config, json }: Options) => {
        const all = await pendingOf(loadStoreSettings(config, true), process.env, time.clock.now());
        const objects = all.map(each => ({
          ...each,
          requestedAt: iso(each.requestedAt),
          expiresAt: iso(each.expiresAt),
          approve: approval(each, config),
        }));
        if (json) print(JSON.stringify(objects, null, 2));
        else print(all.length === 0 ? 'no action waits for approval' : pendingText(all, config));
      }),
    sub('approve', 'approve an action that waits for approval')
      .argument('<action>', 'action id, at least its first 6 characters, or the dlqId')
      .option('--by <name>', 'operator for the journal; default: the system user')
      .action(async (action: string, { config, by = whoAmI() }: Options) => {
        const answer = await order(config, { kind: 'approve', action, by }, time);
        const { account, action: found, rule } = answer as { account: string; action: string; rule: string };
        print(`${account}: ${found} is approved for the rule ${rule}; the next complete walk judges it again`);
      }),
    stopping('pause', 'stop all cancels until resume').action(
      async ({ config, reason = '', by = whoAmI() }: Options) => {
        await orderStop(config, { kind: 'pause', by, reason }, time, before =>
          before === undefined ? 'paused' : `paused; it was paused before, ${before}`,
        );
      },
    ),
    stopping('resume', 'end a pause: allow cancels again').action(
      async ({ config, reason = '', by = whoAmI() }: Options) => {
        await orderStop(config, { kind: 'resume', by, reason }, time, before =>
          before === undefined ? 'it was not paused: nothing changed' : `resumed; it was paused ${before}`,
        );
      },
    ),
    stopping('reset-breaker', 'reset an open breaker')
      .addArgument(new Argument('<breaker>', 'breaker to reset').choices(BREAKERS))
      .action(async (breaker: (typeof BREAKERS)[number], { config, reason = '', by = whoAmI() }: Options) => {
        await orderStop(config, { kind: 'reset-breaker', breaker, by, reason }, time, before =>
          before === undefined
            ? `the breaker ${breaker} was not open: nothing changed`
            : `breaker ${breaker} reset; it was open ${before}`,
        );
      }),
  ];
  for (const each of commands) command.addCommand(each.copyInheritedSettings(command));
  return command;
}
