import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { JournalEntry } from '../model/journal.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import { ambiguous, notWaiting, type StopResult } from './command-answers.ts';
import { type Pause, readCommands, readPause, spreadCommands, type TakenByAccount } from './command-spreading.ts';
import { type Answer, answerChanges, COMMAND, type Command, isQueued, type Taken, takeCommands } from './commands.ts';
import type { Explanation } from './explain.ts';
import type { Journal } from './journal.ts';
import type { JournalState } from './journal-state.ts';
import { waitsForApproval } from './waits.ts';

/** One account as commands see it. */
export interface CommandAccount {
  readonly name: string;
  /** Hash of the rules in force. */
  readonly policy: string;
  readonly journal: Journal;
  explain(id: string): Explanation | undefined;
}

interface Shared {
  /** Names of all accounts, whichever replica holds them. */
  configured(): readonly string[];
  /** Whether this replica does what is of no account. */
  holdsNone(): boolean;
}

export interface CommandHandlerDeps {
  readonly store: Store;
  /** Those that the agent has now; another array where they are others. */
  accounts(): readonly CommandAccount[];
  /** Where replicas share the store; undefined where all accounts are this process's. */
  readonly shared?: Shared | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** Obeys what operators ask through the store. */
export interface CommandHandler {
  /**
   * Obeys the commands that wait, and extends a pause to accounts that are new: a pause is of all accounts. Throws StoreError;
   * what was not answered is then obeyed once more, which changes nothing.
   */
  serve(): Promise<void>;
  /** Whether what was asked before the account was opened has been obeyed: until then nothing may be done in it. */
  isReady(account: string): boolean;
}

/** So many characters of an action's identifier tell it from others, or are refused. */
const SHORTEST = 6;
/** Commands of accounts of which it is remembered that they were obeyed. */
const MOST_OBEYED = 10_000;

type Accounts = readonly CommandAccount[];
type Was = (state: JournalState) => StopResult['before'];

/** Writes it into the journals of those accounts that it changes something for, and says what was so before. */
async function toAll(accounts: Accounts, entry: JournalEntry, was: Was, ends: boolean): Promise<Answer> {
  const before = accounts.flatMap(({ journal }) => was(journal.state) ?? []).at(0);
  for (const { journal } of accounts) {
    if (!ends || was(journal.state)) await journal.append([entry]);
  }
  const result: StopResult = { accounts: accounts.map(({ name }) => name), ...(before ? { before } : {}) };
  return { ok: true, result };
}

/** `isOneOfMany`: other accounts are asked, too, so that only an action's whole id says which one is meant. */
async function approve(
  accounts: Accounts,
  { action: prefix, by }: Extract<Command, { kind: 'approve' }>,
  now: number,
  isOneOfMany: boolean,
): Promise<Answer> {
  const waiting = accounts.flatMap(({ name, policy, journal }) =>
    [...journal.state.actions.values()].flatMap(action =>
      waitsForApproval(action, now) ? [{ name, policy, journal, action }] : [],
    ),
  );
  const found = waiting.filter(
    ({ action: { id, target } }) => target.dlqId === prefix || (prefix.length >= SHORTEST && id.startsWith(prefix)),
  );
  const [one, another] = found;
  if (!one) return { ok: false, why: notWaiting(prefix) };
  if (another) return { ok: false, why: ambiguous(found.length, prefix) };
  const { id, rule, asker, approvedBy } = one.action;
  const result = { account: one.name, action: id, rule };
  if (isOneOfMany && id !== prefix) return { ok: true, result: { found: [result] } };
  // Its operator saw another rule, or another policy, than would act on the approval.
  if (asker?.policy !== one.policy) {
    return {
      ok: false,
      why: `the rules have changed since approval of ${prefix} was requested; the agent requests it again if the callback is still stuck`,
    };
  }
  if (approvedBy === undefined) {
    await one.journal.append([{ at: now, action: id, step: 'approved', by }]);
  }
  return { ok: true, result };
}

export function createCommandHandler(deps: CommandHandlerDeps): CommandHandler {
  const { store, accounts: current, shared, clock, log } = deps;
  /** Accounts for which everything has been obeyed that was asked before they were opened, each with its journal. */
  const ready = new Map<string, Journal>();
  /** A pause waits of which the accounts are not told yet: until they are, nothing is done in any. */
  let isPausing = false;
  /** The pause that lasts, also where all accounts whose journals have it are gone. */
  let pause: Pause | undefined;

  let named: { readonly accounts: Accounts; readonly byName: ReadonlyMap<string, CommandAccount> } | undefined;
  /** Those that the agent has now, by name: each of a thousand is looked for every second. */
  function byName(): ReadonlyMap<string, CommandAccount> {
    const accounts = current();
    if (named?.accounts !== accounts) named = { accounts, byName: new Map(accounts.map(each => [each.name, each])) };
    return named.byName;
  }

  async function extendPause(): Promise<void> {
    const fresh = current().filter(({ name, journal }) => ready.get(name) !== journal);
    if (fresh.length === 0) return;
    if (shared) pause = await readPause(store, clock.now());
    else pause ??= current().flatMap(({ journal }) => journal.state.paused ?? [])[0];
    if (!pause) return;
    for (const { journal } of fresh) if (!journal.state.paused) await journal.append([{ ...pause, step: 'paused' }]);
  }

  async function obey(command: Command, accounts: Accounts): Promise<Answer> {
    const at = clock.now();
    switch (command.kind) {
      case 'pause':
      case 'resume': {
        const [step, ends] = command.kind === 'pause' ? (['paused', false] as const) : (['resumed', true] as const);
        const { by, reason } = command;
        const answer = await toAll(accounts, { at, step, by, reason }, state => state.paused, ends);
        pause = ends ? undefined : { at, by, reason };
        return answer;
      }
      case 'reset-breaker': {
        const { breaker, by, reason } = command;
        const entry: JournalEntry = { at, step: 'breaker_reset', breaker, by, reason };
        return toAll(accounts, entry, state => state.breakers.get(breaker), true);
      }
      case 'approve':
        return approve(accounts, command, at, shared !== undefined);
      case 'explain': {
        const asked = accounts.filter(({ name }) => command.account === undefined || name === command.account);
        return { ok: true, result: asked.flatMap(account => account.explain(command.dlqId) ?? []) };
      }
    }
  }

  async function answer(taken: Taken, accounts: Accounts, account?: string): Promise<void> {
    const given = await obey(taken.command, accounts);
    await store.commit(NO_ACCOUNT, answerChanges(taken, given, clock.now(), account));
    if (taken.command.kind === 'explain') return;
    // All accounts are asked, and one knows it.
    if (account !== undefined && taken.command.kind === 'approve' && !given.ok) return;
    const fields = account === undefined ? taken.command : { ...taken.command, account };
    if (given.ok) log.warn({ ...fields, ok: true }, 'operator command executed');
    else log.warn({ ...fields, ok: false, why: given.why }, 'operator command refused');
  }

  /**
   * Commands of accounts that were obeyed, the newest: one that comes up again was written by a replica that had been stopped
   * meanwhile. An approval or an explanation changes nothing when it is given twice.
   */
  const obeyed = new Set<string>();

  async function obeyOnce(taken: TakenByAccount, account: CommandAccount): Promise<void> {
    const name = `${taken.id}/${taken.account}`;
    if (obeyed.has(name)) await store.commit(NO_ACCOUNT, [{ key: COMMAND + name, value: null }]);
    else await answer(taken, [account], taken.account);
    if (!isQueued(taken.command)) return;
    obeyed.add(name);
    const [oldest] = obeyed;
    if (obeyed.size > MOST_OBEYED && oldest !== undefined) obeyed.delete(oldest);
  }

  /** Every account by itself. */
  async function serveShared(
    { configured, holdsNone }: Shared,
    own: ReadonlyMap<string, CommandAccount>,
  ): Promise<void> {
    let waiting = await readCommands(store, clock.now());
    if (holdsNone()) {
      await spreadCommands(store, waiting, configured(), { clock, log });
      if (waiting.unspread.length > 0) waiting = await readCommands(store, clock.now());
    }
    isPausing = waiting.unspread.some(({ command: { kind } }) => kind === 'pause');
    for (const taken of waiting.ofAccounts) {
      const account = own.get(taken.account);
      if (account) await obeyOnce(taken, account);
    }
  }

  return {
    async serve() {
      const [accounts, own] = [current(), byName()];
      // What was asked while one was not there was not obeyed in it.
      for (const [name, journal] of ready) if (own.get(name)?.journal !== journal) ready.delete(name);
      await extendPause();
      if (shared) await serveShared(shared, own);
      else for (const taken of await takeCommands(store, { clock, log })) await answer(taken, current());
      for (const { name, journal } of accounts) ready.set(name, journal);
    },
    isReady(name) {
      const journal = byName().get(name)?.journal;
      return !isPausing && journal !== undefined && ready.get(name) === journal;
    },
  };
}
