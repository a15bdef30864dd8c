import { createHash } from 'node:crypto';
import type { Outbox } from '../alerts/outbox.ts';
import {
  type AutoCancel as AccountAutoCancel,
  type Brake,
  createAutoCancel as createAccountAutoCancel,
  createBrake,
  createOrders,
  type Explanation,
  LEASE_MARGIN,
  type Lease,
  linesOfStops,
  mayBeThere,
  modeOf,
  newestLines,
  type OrderAccount,
  orderApproval,
  pauseAutoCancel,
  readJournal,
  resultOf,
  resumeAutoCancel,
} from '../auto-cancel/index.ts';
import { accountMayAct } from '../config/auto-cancel.ts';
import type { Config } from '../config/schema.ts';
import type { CommandAnswer, OperatorCommand } from '../http/served.ts';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { createReuse, type Reuse } from '../kit/reuse.ts';
import type { Tracer } from '../kit/tracer.ts';
import { autoCancelFamilies, autoCancelSamples } from '../metrics/auto-cancel.ts';
import type { Source } from '../metrics/family.ts';
import type { JournalEntry } from '../model/journal.ts';
import { StoreError } from '../store/errors.ts';
import { isGuardFailed, type Store } from '../store/store.ts';
import type { Account } from './account.ts';
import { walkViewOf } from './callbacks.ts';

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
  /** Does what the command of the command line does. Rejects with StoreError, and with the reason of `signal`. */
  command(command: OperatorCommand, signal: AbortSignal): Promise<CommandAnswer>;
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
  readonly brake: Brake;
  readonly commands: Body;
  readonly inUse: { accounts: readonly OrderAccount[]; configured: readonly string[] };
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
  /** Alerts that are firing or of unknown state in an account, by name. */
  readonly alertStates: (account: string) => ReadonlyMap<string, 'firing' | 'unknown'>;
  /** Milliseconds for which the account is surely this replica's; undefined where the agent is alone. */
  readonly leaseLeft?: (account: string) => number | undefined;
}

/** Milliseconds for which a command waits for its order to be executed: orders are read once a second. */
export const ORDER_WAIT = 10_000;

/** Lines that are given at a time: some 10 MB of JSON. */
const MOST_LINES = 10_000;

/**
 * All lines of some accounts' journals from a time on, the oldest first, with pauses and resumes that no agent has copied into
 * them yet. Blocks the process while it reads.
 */
export async function readJournals(
  store: Pick<Store, 'scan'>,
  accounts: readonly string[],
  since: number,
): Promise<JournalLine[]> {
  const lines: JournalLine[] = [];
  const stops = await linesOfStops(store, Number.POSITIVE_INFINITY);
  for (const account of accounts) {
    const own = await readJournal(store, account);
    const known = new Set(own.map(entry => 'order' in entry && entry.order));
    for (const entry of [...own, ...stops.filter(({ order }) => !known.has(order))]) {
      if (entry.at >= since) lines.push({ account, ...entry });
    }
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
  brake: Brake,
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
    brake,
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
async function open(account: Account, deps: AutoCancelDeps, { opened, brake }: Omit<Kept, 'policy'>): Promise<Opened> {
  const last = await opened.made.get(account.name)?.value;
  return runnable(await openAccountAutoCancel(account, deps, brake, last?.own), deps);
}

function runnable(own: AccountAutoCancel, { log }: Pick<AutoCancelDeps, 'log'>): Opened {
  const run = quietly(log, 'auto-cancel failed; it retries', signal => own.run(signal));
  return { own, run, source: createSource(own) };
}

/** What outlasts configurations, at the start of the process. */
function createKept({ store, clock, log }: AutoCancelDeps): Omit<Kept, 'policy'> {
  const inUse: Kept['inUse'] = { accounts: [], configured: [] };
  const brake = createBrake(store, clock, log);
  const orders = createOrders({
    store,
    accounts: () => inUse.accounts,
    isConfigured: account => inUse.configured.includes(account),
    clock,
    log,
  });
  const parts = [
    quietly(log, 'the brake of auto-cancel could not be followed', () =>
      brake.follow(inUse.accounts.map(({ journal }) => journal)),
    ),
    quietly(log, 'operator commands could not be processed', () => orders.serve()),
  ];
  const commands: Body = async signal => {
    for (const part of parts) await part(signal);
  };
  return { opened: createReuse(), brake, commands, inUse };
}

/** Executes what operators order over HTTP. */
function commandOf({
  brake,
  ...deps
}: Parameters<typeof orderApproval>[1] & {
  readonly store: Store;
  readonly brake: Brake;
}): AutoCancel['command'] {
  const { store, accounts, clock } = deps;
  const stopped = async (before: { at: number; by: string; reason: string } | undefined): Promise<CommandAnswer> => {
    // What is shown from now on includes it.
    await brake.read();
    return { ok: true, result: { accounts, ...(before && { before }) } };
  };
  return async (command, signal) => {
    switch (command.kind) {
      case 'pause':
        return stopped(await pauseAutoCancel(store, command, { clock, signal, waiting: () => undefined }));
      case 'resume':
        try {
          return await stopped(await resumeAutoCancel(store, command, clock));
        } catch (error) {
          if (isGuardFailed(error)) return { ok: false, why: RESUME_RACED };
          throw error;
        }
      case 'approve': {
        const found = await orderApproval(command, deps);
        if ('why' in found) return { ok: false, why: found.why };
        const executed = await resultOf(found.placed, store, { waitMs: ORDER_WAIT, clock, signal });
        if (executed === 'waiting') return executed;
        if (executed !== 'done') return { ok: false, why: executed.refused };
        const { action, rule, placed } = found;
        return { ok: true, result: { account: placed.account, action, rule } };
      }
    }
  };
}

/** Why a resume was refused. */
export const RESUME_RACED = 'auto-cancel was paused or resumed at the same moment: check who did, then try again';

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

  const names = config.accounts.map(({ name }) => name);
  const stateOf = (account: string) => all.find(own => own.account === account)?.journal.state;

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
    command: commandOf({ store, accounts: names, stateOf, clock, brake: kept.brake }),
    take() {
      reuse.settle();
      inUse.accounts = all.map(({ account, journal }) => ({ name: account, policy, journal }));
      inUse.configured = names;
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
