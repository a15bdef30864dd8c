import { createHash } from 'node:crypto';
import type { Outbox } from '../alerts/outbox.ts';
import {
  type AutoCancel as AccountAutoCancel,
  type Answer,
  ask,
  type Command,
  type CommandAccount,
  type CommandHandler,
  createAutoCancel as createAccountAutoCancel,
  createCommandHandler,
  type Explanation,
  LEASE_MARGIN,
  type Lease,
  mayBeThere,
  modeOf,
  newestLines,
  readJournal,
} from '../auto-cancel/index.ts';
import { accountMayAct } from '../config/auto-cancel.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { createReuse, type Reuse } from '../kit/reuse.ts';
import type { Tracer } from '../kit/tracer.ts';
import { autoCancelFamilies, autoCancelSamples } from '../metrics/auto-cancel.ts';
import type { Source } from '../metrics/family.ts';
import type { JournalEntry } from '../model/journal.ts';
import type { Records } from '../model/log-record.ts';
import { StoreError } from '../store/errors.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import type { Account } from './account.ts';
import { walkViewOf } from './callbacks.ts';
import type { Holding } from './holding.ts';

/** Acting on stuck failure callbacks, for all accounts, as one configuration asks for it. */
export interface AutoCancel {
  readonly sources: readonly Source[];
  /** Loops to run, one after the other within each; none throws. */
  readonly loops: readonly Body[];
  /** Why the failure callback with this dlqId or messageId is or is not acted upon, by every account that tracks it. */
  explain(id: string, account: string | undefined): readonly Explanation[];
  /**
   * The journal from a time on (milliseconds since the Unix epoch), the oldest line first; the newest 10,000 where there are
   * more, or `most`. `account`: of this one alone. Rejects with StoreError.
   */
  journal(since: number, most?: number, account?: string): Promise<readonly JournalLine[]>;
  /** Of each account: what it knows, and its brakes. */
  readonly accounts: readonly AccountAutoCancel[];
  /** Has a command executed as one of the command line is: through the store, by the loop that executes all of them. */
  command(command: Command, signal: AbortSignal): Promise<Answer | 'no_agent'>;
  /** Puts it in the place of the one before, whose loops that are not among these have ended. */
  take(): void;
  /** What the next one goes on with. */
  readonly kept: Kept;
}

type Body = (signal: AbortSignal) => Promise<void>;

/** Auto-cancel of one account, and how it is run and shown. */
interface Opened {
  readonly own: AccountAutoCancel;
  readonly run: Body;
  readonly source: Source;
}

/** What outlasts a configuration. */
interface Kept {
  readonly opened: Reuse<Promise<Opened>>;
  readonly handler: CommandHandler;
  readonly commands: Body;
  readonly inUse: { accounts: readonly CommandAccount[]; configured: readonly string[] };
  readonly policy: string;
}

export type { Explanation } from '../auto-cancel/index.ts';
export type JournalLine = JournalEntry & { readonly account: string };

export interface AutoCancelDeps {
  readonly config: Config;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly tracer: Tracer;
  /** Takes the notices of rules. */
  readonly outbox: Pick<Outbox, 'post'>;
  /** Takes log records of actions that end. */
  readonly records?: Records | undefined;
  /** Alerts that are firing or of unknown state in an account, by name. */
  readonly alertStates: (account: string) => ReadonlyMap<string, 'firing' | 'unknown'>;
  /** Milliseconds for which the account is surely this replica's; undefined where the agent is alone. */
  readonly leaseLeft?: (account: string) => number | undefined;
  /** Where replicas share the store. */
  readonly holding?: Pick<Holding, 'held' | 'remaining'> | undefined;
}

/** Milliseconds in which a command is answered: they are looked for every second, and reading the service may hold that up. */
const COMMAND_WAIT = 10_000;

/** Lines that are given at a time: some 10 MB of JSON. */
const MOST_LINES = 10_000;

/** All lines of some accounts' journals from a time on, the oldest first. Blocks the process while it reads. */
export async function readJournals(
  store: Pick<Store, 'scan'>,
  accounts: readonly string[],
  since: number,
): Promise<JournalLine[]> {
  const lines: JournalLine[] = [];
  for (const account of accounts) {
    for (const entry of await readJournal(store, account)) if (entry.at >= since) lines.push({ account, ...entry });
  }
  return lines.sort((a, b) => a.at - b.at);
}

/** The families of one account, as its numbers are. */
function createSource({ account, numbers }: AccountAutoCancel): Source {
  let last = { text: '', samples: autoCancelSamples(numbers()) };
  return {
    account,
    families: Object.values(autoCancelFamilies),
    revision() {
      const samples = autoCancelSamples(numbers());
      const text = JSON.stringify([...samples.values()]);
      if (text !== last.text) last = { text, samples };
      return last.text;
    },
    samples: () => last.samples,
  };
}

const policyOf = ({ autoCancel }: Config) =>
  createHash('sha256').update(JSON.stringify(autoCancel)).digest('hex').slice(0, 16);

/** Auto-cancel of one account. `before`: under another configuration. Rejects with StoreError where its journal can't be read. */
function openAccountAutoCancel(
  account: Account,
  deps: AutoCancelDeps,
  before: AccountAutoCancel | undefined,
): Promise<AccountAutoCancel> {
  const { config, alertStates, store, leaseLeft } = deps;
  const { name } = account;
  const timeout = config.accounts.find(each => each.name === name)?.upstream.timeout ?? 0;
  const leaseTime = store.replicas?.leaseTime ?? 0;
  // A cancel may take longer while there is more left. So much is left at any time while renewals succeed.
  const needed = Math.min(timeout, leaseTime / 3) + LEASE_MARGIN;
  function lease(): Lease | undefined {
    const left = leaseLeft?.(name);
    return left === undefined ? undefined : { left, needed };
  }
  const own = {
    ...deps,
    account: name,
    options: config.autoCancel,
    policy: policyOf(config),
    walk: () => walkViewOf(account),
    reader: account.at('look'),
    lastReader: account.at('action'),
    writer: accountMayAct(config, name) ? account.createWriter() : undefined,
    isStopped: () => mayBeThere(config.autoCancel.stopFile),
    clockSkew: account.clockSkew,
    alertStates: () => alertStates(name),
    lease,
    replica: store.replicas?.self.id,
  };
  return createAccountAutoCancel(own, before);
}

/** A body that logs what it throws; the same once until it ends, as a store may be away for hours, and in ever other words. */
function quietly(log: Log, what: string, work: Body): Body {
  let last: string | undefined;
  return async signal => {
    try {
      await work(signal);
      last = undefined;
    } catch (thrown) {
      if (signal.aborted) return;
      const error = String(thrown);
      const kind = thrown instanceof StoreError ? thrown.name : error;
      log[kind === last ? 'debug' : 'error']({ error }, what);
      last = kind;
    }
  };
}

/** Nothing of it may hold on to `kept`: each generation would hold on to all before it. */
async function open(
  account: Account,
  deps: AutoCancelDeps,
  { opened, handler }: Omit<Kept, 'policy'>,
): Promise<Opened> {
  const last = await opened.made.get(account.name)?.value;
  return runnable(await openAccountAutoCancel(account, deps, last?.own), handler, deps);
}

function runnable(own: AccountAutoCancel, handler: CommandHandler, { log }: Pick<AutoCancelDeps, 'log'>): Opened {
  const run = quietly(log, 'auto-cancel failed; it retries', async signal => {
    if (handler.isReady(own.account)) await own.run(signal);
  });
  return { own, run, source: createSource(own) };
}

/** What begins: nothing was asked yet. */
function createKept({ store, holding, clock, log }: AutoCancelDeps): Omit<Kept, 'policy'> {
  const inUse: Kept['inUse'] = { accounts: [], configured: [] };
  const shared = holding && {
    configured: () => inUse.configured,
    holdsNone: () => holding.held(NO_ACCOUNT) && holding.remaining(NO_ACCOUNT) > 0,
  };
  const handler = createCommandHandler({ store, accounts: () => inUse.accounts, shared, clock, log });
  const commands = quietly(log, 'operator commands could not be processed', () => handler.serve());
  return { opened: createReuse(), handler, commands, inUse };
}

/**
 * Undefined while the configuration has it off. `before`: what is in use until `take`; an account whose rules have not changed
 * goes on as it is. `isReload`: something is in use, be it with auto-cancel off; otherwise it is taken at once. Rejects with
 * StoreError where its journals can't be read.
 */
export async function createAutoCancel(
  deps: AutoCancelDeps & { readonly accounts: readonly Account[] },
  before?: AutoCancel,
  isReload = before !== undefined,
): Promise<AutoCancel | undefined> {
  const { config, accounts, store, clock, log } = deps;
  const { mode, rules } = config.autoCancel;
  if (mode === 'off' || rules.length === 0) return undefined;
  const policy = policyOf(config);
  const kept = before?.kept ?? createKept(deps);
  const { commands, inUse } = kept;
  const reuse = createReuse(kept.opened);
  const policyBefore = before?.kept.policy;

  const mayAct = (account: Account) => accountMayAct(config, account.name);
  const opening = accounts.map(each => reuse.of(each.name, [each, policy, mayAct(each)], () => open(each, deps, kept)));
  const opened = await Promise.all(opening);
  const all = opened.map(({ own }) => own);

  const command = (given: Command, signal: AbortSignal) => {
    // A replica that has gone leaves its accounts to others only when its leases have ended.
    const waitMs = COMMAND_WAIT + (store.replicas?.leaseTime ?? 0);
    return ask(store, given, { waitMs, clock, signal });
  };

  const autoCancel: AutoCancel = {
    sources: opened.map(({ source }) => source),
    loops: [commands, ...opened.filter(({ own }) => own.isUsed).map(({ run }) => run)],
    explain: (id, account) =>
      all.filter(each => account === undefined || each.account === account).flatMap(each => each.explain(id) ?? []),
    accounts: all,
    async journal(since, most = MOST_LINES, only = undefined) {
      const wanted = all.filter(({ account }) => (only ?? account) === account);
      return newestLines(
        wanted.map(({ journal }) => journal.lines),
        since,
        most,
      );
    },
    command,
    take() {
      reuse.settle();
      inUse.accounts = all.map(({ account, journal, explain }) => ({ name: account, policy, journal, explain }));
      inUse.configured = config.accounts.map(({ name }) => name);
      for (const each of all) each.begin();
      if (policy === policyBefore) return;
      for (const rule of rules) {
        log.info({ rule: rule.name, mode: modeOf(rule, mode, clock.now()), policy }, 'auto-cancel rule is active');
      }
    },
    kept: { ...kept, opened: reuse, policy },
  };
  if (isReload) return autoCancel;
  autoCancel.take();
  // What was asked while no agent ran comes before anything else.
  await commands(new AbortController().signal);
  return autoCancel;
}
