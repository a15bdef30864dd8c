import { userInfo } from 'node:os';
import { Argument, Command } from 'commander';
import type { Explanation } from '../auto-cancel/account.ts';
import { ORDER_WAIT, RESUME_RACED, readJournals } from '../auto-cancel/accounts.ts';
import { pauseAutoCancel, resumeAutoCancel } from '../auto-cancel/brake.ts';
import { type JournalLine, readJournalState } from '../auto-cancel/journal.ts';
import { foldPlan, noPlans, planSummary } from '../auto-cancel/journal-state.ts';
import { orderApproval, orderReset, resultOf } from '../auto-cancel/orders.ts';
import { type PendingAction, pendingActions } from '../auto-cancel/waits.ts';
import { detailOf, skipText } from '../auto-cancel/words.ts';
import { loadStoreSettings, type StoreSettings } from '../config/load.ts';
import { type Peer, requestPeer } from '../http/peer.ts';
import { systemClock } from '../kit/clock.ts';
import { durationText } from '../kit/duration.ts';
import { plural, printable, printableJson, someOf } from '../kit/text.ts';
import { BREAKERS } from '../model/journal.ts';
import { attachStore } from '../store/open.ts';
import { isGuardFailed, type Store } from '../store/store.ts';
import { askAgent } from './ask-agent.ts';
import { configOption } from './config-option.ts';
import { commandGroup, durationOption, operatorTextOption } from './option-values.ts';
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

function whoAmI(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}

const wordsOf = ({ at, by, reason }: { at: number; by?: string; reason: string }) =>
  `since ${iso(at)}${by === undefined ? '' : ` by ${printable(by)}`}: ${printable(reason)}`;

/** Opens the configured store for `work`, which needs no running agent. */
async function withStore<T>({ store: options }: StoreSettings, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await attachStore(options, { env: process.env });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

const waits = (account: string) =>
  `no agent has executed this request yet: the next agent that opens the account ${account} executes the request if it is still valid`;

const SIGNS = { true: 'yes', false: 'NO', unknown: '?' } as const;

function explanationText(found: Explanation): string {
  const { firstSeenAt, lastSeenAt, findings, held, paused, attempts, outcome } = found;
  const seen = durationText((lastSeenAt - firstSeenAt) / 1000);
  const lines = [
    `${found.account}: entry ${printable(found.dlqId ?? found.messageId ?? '(without an id)')}, action ${found.action ?? '-'}`,
    `seen in ${plural(found.snapshots, 'complete walk')} over ${seen}: ${iso(firstSeenAt)} to ${iso(lastSeenAt)}`,
  ];
  for (const [index, { rule, verdict, reason, predicates }] of findings.entries()) {
    const word = index === 0 ? `mode ${found.owner?.mode}` : 'shadowed by the rule above';
    lines.push('', `rule ${rule} (${word}): ${verdict}${reason === verdict ? '' : `, because of ${reason}`}`);
    const rows = predicates.map(({ name, holds, found, asked }) => [SIGNS[`${holds}`], name, found, asked]);
    lines.push(toTable(['holds', 'predicate', 'found', 'required'], rows));
  }
  if (findings.length === 0) lines.push('', 'no rule matches this entry: it is never cancelled');
  if (held !== undefined) lines.push('', `not cancelled now: ${held}. ${skipText(held)}`);
  if (paused) lines.push('', `auto-cancel is paused ${wordsOf(paused)}`);
  if (attempts > 0 || outcome) lines.push('', `attempts: ${attempts}, outcome: ${outcome ?? 'not final yet'}`);
  return lines.join('\n');
}

function journalRow(line: JournalLine): string[] {
  const rule = 'rule' in line ? line.rule : '';
  const id = 'target' in line ? line.target.id : '';
  return [iso(line.at), line.account, line.step, rule, line.action?.slice(0, 12) ?? '', id, detailOf(line)];
}

/** Formats the command that approves an action. It contains the complete id, because a prefix may match several actions. */
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
  new Command(name).description(description).addOption(configOption('configuration file of the agent'));

const stopping = (name: string, description: string) =>
  sub(name, description)
    .requiredOption('--reason <text>', 'reason for the journal; required', operatorTextOption)
    .option('--by <name>', 'operator for the journal; default: the system user', operatorTextOption);

const explainCommand = () =>
  sub(
    'explain',
    'ask the agent how each rule evaluates an entry and what prevents a cancel; exit 1 if no agent tracks it',
  )
    .argument('<dlqId>', 'dlqId or messageId of the entry')
    .option('--account <name>', 'only this account')
    .option('--json', 'print JSON')
    .action(async (dlqId: string, { config, account, json }: Options) => {
      const settings = loadStoreSettings(config, account !== undefined);
      if (account !== undefined && !settings.accounts.includes(account)) {
        throw new Error(`${config} has no account ${account}; it has ${someOf(settings.accounts)}`);
      }
      const signal = stopSignal();
      const ask = (peer: Peer) => requestPeer({ ...peer, id: dlqId, account }, signal);
      const response = await withStore(settings, store => askAgent(store, signal, ask));
      const found = response as readonly Explanation[] | undefined;
      if (!found) throw new Error('no agent responded: run an agent with this store, and with autoCancel.mode not off');
      if (found.length === 0) {
        throw new Error(
          `no failure callback of ${dlqId} is tracked: it was not in progress at the last complete walk, no walk has completed yet (see the log of the agent), or no rule tracks it`,
        );
      }
      print(json ? printableJson(found, 2) : found.map(explanationText).join('\n\n'));
    });

const journalCommand = () =>
  sub('journal', 'print marks, plans, cancels and responses from the store')
    .option('--since <duration>', 'only entries from the last DURATION, such as 24h', durationOption)
    .option('--json', 'print a JSON object per line, with the evidence')
    .action(async ({ config, since, json }: Options) => {
      const from = since === undefined ? Number.NEGATIVE_INFINITY : systemClock.now() - since;
      const settings = loadStoreSettings(config, true);
      const lines = await withStore(settings, store => readJournals(store, settings.accounts, from));
      if (json) for (const line of lines) print(printableJson(line));
      else if (lines.length === 0) print('the journal is empty');
      else print(toTable(['time', 'account', 'step', 'rule', 'action', 'id', ''], lines.map(journalRow)));
    });

const REPORT_HELP = `
success, failed: the callback ended by itself. in progress: it was still in
progress two days after the plan. unknown: it was cancelled, or the agent did not
see its end. observing: it has not ended yet. wrong: share of success in the sum
of success, failed and in progress.`;

const reportCommand = () =>
  sub('report', 'show for each rule how callbacks with planned cancels ended')
    .option('--since <duration>', 'only plans of the last DURATION, such as 30d', durationOption)
    .option('--json', 'print JSON')
    .addHelpText('after', REPORT_HELP)
    .action(async ({ config, since = Number.POSITIVE_INFINITY, json }: Options) => {
      const settings = loadStoreSettings(config, true);
      const from = systemClock.now() - since;
      const plans = noPlans();
      const lines = await withStore(settings, store => readJournals(store, settings.accounts, from));
      for (const line of lines) foldPlan(plans, line);
      const all = [...plans.rules].map(([rule, counts]) => ({ rule, ...planSummary(counts) }));
      const heads = Object.keys(all[0] ?? {}).map(name => name.replaceAll('_', ' '));
      const rows = all.map(row => Object.values(row).map(String));
      if (json) print(JSON.stringify(all, null, 2));
      else print(rows.length === 0 ? 'no callback was planned' : toTable(heads, rows));
    });

const pendingCommand = () =>
  sub('pending', 'list the actions that wait for approval')
    .option('--json', 'print JSON')
    .action(async ({ config, json }: Options) => {
      const settings = loadStoreSettings(config, true);
      const now = systemClock.now();
      const open: string[] = [];
      const all = await withStore(settings, async store => {
        const found: PendingAction[] = [];
        for (const name of settings.accounts) {
          const state = await readJournalState(store, name);
          found.push(...pendingActions(state, now));
          for (const [breaker, opened] of state.breakers) {
            open.push(`${name}: the breaker ${breaker} is open ${wordsOf(opened)}`);
          }
        }
        return found.sort((a, b) => a.expiresAt - b.expiresAt);
      });
      const objects = all.map(each => ({
        ...each,
        requestedAt: iso(each.requestedAt),
        expiresAt: iso(each.expiresAt),
        approve: approval(each, config),
      }));
      if (json) print(printableJson(objects, 2));
      else print([all.length === 0 ? 'no action waits for approval' : pendingText(all, config), ...open].join('\n'));
    });

const approveCommand = () =>
  sub('approve', 'approve an action that waits for approval')
    .argument('<action>', 'id of the action (or at least its first 6 characters), or dlqId of the entry')
    .option('--by <name>', 'operator for the journal; default: the system user', operatorTextOption)
    .action(async (action: string, { config, by = whoAmI() }: Options) => {
      const settings = loadStoreSettings(config, true);
      const deps = { clock: systemClock, signal: stopSignal() };
      await withStore(settings, async store => {
        const found = await orderApproval({ action, by }, { store, accounts: settings.accounts, ...deps });
        if ('why' in found) throw new Error(found.why);
        const { placed, rule } = found;
        const executed = await resultOf(placed, store, { waitMs: ORDER_WAIT, ...deps });
        if (executed === 'waiting') print(waits(placed.account));
        else if (executed !== 'done') throw new Error(`refused: ${executed.refused}`);
        else
          print(
            `${placed.account}: ${found.action} is approved for the rule ${rule}; the next complete walk evaluates the callback again`,
          );
        for (const hold of found.holds) print(`nothing is sent until ${hold}`);
      });
    });

const pauseCommand = () =>
  stopping('pause', 'stop all cancels until you run resume').action(
    async ({ config, reason = '', by = whoAmI() }: Options) => {
      const waiting = (requests: number) =>
        void process.stderr.write(
          `paused; waiting at most 30 s for ${requests === 1 ? 'a cancel request' : `${requests} cancel requests`} that may be in flight\n`,
        );
      const deps = { clock: systemClock, signal: stopSignal(), waiting };
      const before = await withStore(loadStoreSettings(config), store => pauseAutoCancel(store, { by, reason }, deps));
      print(before === undefined ? 'paused' : `paused; it was already paused ${wordsOf(before)}`);
    },
  );

const resumeCommand = () =>
  stopping('resume', 'end a pause: allow cancels again').action(
    async ({ config, reason = '', by = whoAmI() }: Options) => {
      const resumed = withStore(loadStoreSettings(config), store =>
        resumeAutoCancel(store, { by, reason }, systemClock),
      );
      const before = await resumed.catch(error => {
        throw isGuardFailed(error) ? new Error(RESUME_RACED, { cause: error }) : error;
      });
      if (before === undefined) print('auto-cancel was not paused: nothing changed');
      else print(`resumed; it was paused ${wordsOf(before)}`);
    },
  );

const resetBreakerCommand = () =>
  stopping('reset-breaker', 'reset an open breaker in every account')
    .addArgument(new Argument('<breaker>', 'breaker to reset').choices(BREAKERS))
    .action(async (breaker: (typeof BREAKERS)[number], { config, reason = '', by = whoAmI() }: Options) => {
      const settings = loadStoreSettings(config, true);
      const deps = { clock: systemClock, signal: stopSignal() };
      const refused: string[] = [];
      await withStore(settings, async store => {
        const resets = await orderReset({ breaker, by, reason }, { store, accounts: settings.accounts, ...deps });
        if (resets.length === 0) print(`the breaker ${breaker} was not open: nothing changed`);
        const waiting = resets.map(({ placed }) => resultOf(placed, store, { waitMs: ORDER_WAIT, ...deps }));
        for (const [index, executed] of (await Promise.all(waiting)).entries()) {
          const { placed, openedAt: at, reason } = resets[index] as (typeof resets)[number];
          const { account } = placed;
          if (executed === 'waiting') print(waits(account));
          else if (executed !== 'done') refused.push(`${account}: refused: ${executed.refused}`);
          else print(`${account}: breaker ${breaker} reset; it was open ${wordsOf({ at, reason })}`);
        }
      });
      if (refused.length > 0) throw new Error(refused.join('\n'));
    });

export const autoCancelCommand = (): Command =>
  commandGroup(
    'auto-cancel',
    'explain decisions, list and approve actions, print the journal and a report, pause, resume and reset breakers',
    [
      explainCommand(),
      journalCommand(),
      reportCommand(),
      pendingCommand(),
      approveCommand(),
      pauseCommand(),
      resumeCommand(),
      resetBreakerCommand(),
    ],
  );
