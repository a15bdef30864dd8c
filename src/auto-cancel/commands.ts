import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import { BREAKERS, type JournalEntry } from '../model/journal.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import type { Explanation } from './explain.ts';
import type { Journal } from './journal.ts';
import type { JournalState } from './journal-state.ts';
import { waitsForApproval } from './waits.ts';

const text = z.string().regex(/\S/, { error: 'must not be blank' });

const commandShape = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.enum(['pause', 'resume']), by: text, reason: text }),
  z.strictObject({ kind: z.literal('reset-breaker'), breaker: z.enum(BREAKERS), by: text, reason: text }),
  z.strictObject({ kind: z.literal('approve'), action: text, by: text }),
  z.strictObject({ kind: z.literal('explain'), dlqId: text, account: text.optional() }),
]);

/** What operators may ask of the running agent from another process. */
export type Command = Readonly<z.infer<typeof commandShape>>;

/** `result`: what the command gives, as JSON. `why`: for the operator. */
export type Answer = { readonly ok: true; readonly result?: unknown } | { readonly ok: false; readonly why: string };

/** A command as the agent took it. */
export interface Taken {
  readonly id: string;
  /** When it was given, milliseconds since the Unix epoch. */
  readonly at: number;
  readonly command: Command;
}

const time = z.number();
const commandRow = z.strictObject({ at: time, takeUntil: time.nullable(), command: commandShape });
const answerRow = z.strictObject({
  at: time,
  answer: z.union([
    z.strictObject({ ok: z.literal(true), result: z.unknown().optional() }),
    z.strictObject({ ok: z.literal(false), why: z.string() }),
  ]),
});

const COMMAND = 'command/';
const ANSWER = 'answer/';
/** Milliseconds between two looks for the answer. */
const LOOK_EVERY = 100;
/** Milliseconds from taking a command to its committed answer: the asking process waits this much longer before it gives up. */
const SETTLE = 1000;
/** Milliseconds after which an answer that was not fetched is removed. */
const STALE = 3_600_000;

/** A pause, resume or reset counts for the next agent, too; an approval or an explanation only for the operator who waits for it. */
const isQueued = ({ kind }: Command) => kind !== 'approve' && kind !== 'explain';

/** The row's value in its shape; undefined when it is anything else: another version wrote it, or something is wrong. */
function read<T>(shape: z.ZodType<T>, value: string | undefined): T | undefined {
  try {
    return shape.safeParse(JSON.parse(value ?? 'null')).data;
  } catch {
    return undefined;
  }
}

/**
 * Gives a command to the running agent and waits for what it says. `no_agent`: none took it within `waitMs`
 * milliseconds. A pause, resume or reset then stays where it is, for the next agent to obey before anything else; an
 * approve or explain is withdrawn. So it is when `signal` is aborted, whose reason is then thrown. Throws StoreError, and a
 * RangeError for what no agent would take.
 */
export async function ask(
  store: Pick<Store, 'scan' | 'commit'>,
  command: Command,
  { waitMs, clock, signal }: { readonly waitMs: number; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Answer | 'no_agent'> {
  const issue = commandShape.safeParse(command).error?.issues[0];
  if (issue) throw new RangeError([...issue.path, issue.message].join(': '));
  const id = randomUUID();
  const [asked, answered] = [COMMAND + id, ANSWER + id];
  const at = clock.now();
  const row: z.infer<typeof commandRow> = { at, takeUntil: isQueued(command) ? null : at + waitMs, command };
  await store.commit(NO_ACCOUNT, [{ key: asked, value: JSON.stringify(row) }]);

  async function look(): Promise<Answer | undefined> {
    const value = (await store.scan(NO_ACCOUNT, answered)).get(answered);
    if (value === undefined) return undefined;
    // What can't be removed now the agent removes later.
    await store.commit(NO_ACCOUNT, [{ key: answered, value: null }]).catch(() => undefined);
    return (
      read(answerRow, value)?.answer ?? {
        ok: false,
        why: 'the running agent has another version: its answer is not readable',
      }
    );
  }

  const end = clock.monotonic() + waitMs + (isQueued(command) ? 0 : SETTLE);
  try {
    while (clock.monotonic() < end) {
      const answer = await look();
      if (answer) return answer;
      await clock.sleep(LOOK_EVERY, signal);
    }
  } catch (error) {
    if (!isQueued(command)) await store.commit(NO_ACCOUNT, [{ key: asked, value: null }]);
    throw error;
  }
  if (!isQueued(command)) await store.commit(NO_ACCOUNT, [{ key: asked, value: null }]);
  // It may have come between the last look and the withdrawal.
  return (await look()) ?? 'no_agent';
}

/**
 * The commands that wait, in the order in which they were given. Each is to be answered by `answerChanges`, in the
 * transaction that makes it so. Removes, and logs, what is no command, and commands that expired.
 */
export async function takeCommands(
  store: Pick<Store, 'scan' | 'commit'>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<readonly Taken[]> {
  const now = clock.now();
  const taken: Taken[] = [];
  const removed: Change[] = [];
  for (const [key, value] of await store.scan(NO_ACCOUNT, COMMAND)) {
    const row = read(commandRow, value);
    if (row && (row.takeUntil === null || now <= row.takeUntil)) {
      taken.push({ id: key.slice(COMMAND.length), at: row.at, command: row.command });
      continue;
    }
    removed.push({ key, value: null });
    if (row) log.info({ kind: row.command.kind }, 'an expired command was dropped');
    else log.warn({ bytes: value.length }, 'a command that this version does not know was dropped');
  }
  for (const [key, value] of await store.scan(NO_ACCOUNT, ANSWER)) {
    const at = read(answerRow, value)?.at ?? Number.NEGATIVE_INFINITY;
    // A clock that was set back makes it look as if it came later.
    if (Math.abs(now - at) > STALE) removed.push({ key, value: null });
  }
  if (removed.length > 0) await store.commit(NO_ACCOUNT, removed);
  return taken.sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1));
}

/** What answers a command, and takes it away: rows of `NO_ACCOUNT`. `now`: milliseconds since the Unix epoch. */
export function answerChanges({ id }: Taken, answer: Answer, now: number): Change[] {
  const row: z.infer<typeof answerRow> = { at: now, answer };
  return [
    { key: COMMAND + id, value: null },
    { key: ANSWER + id, value: JSON.stringify(row) },
  ];
}

/** One account as commands see it. */
export interface CommandAccount {
  readonly name: string;
  /** Hash of the rules in force. */
  readonly policy: string;
  readonly journal: Journal;
  explain(id: string): Explanation | undefined;
}

export interface CommandHandlerDeps {
  readonly store: Store;
  /** Those that the agent has now. */
  accounts(): readonly CommandAccount[];
  readonly clock: Clock;
  readonly log: Log;
}

/** The state before a command: the pause that lasted, or why the breaker was open. `at`: milliseconds since the Unix epoch. */
interface Before {
  readonly at: number;
  readonly by?: string;
  readonly reason: string;
}

/** The result of `pause`, `resume` and `reset-breaker`. Without `before`: there was no pause, and the breaker was not open. */
export interface StopResult {
  readonly accounts: readonly string[];
  readonly before?: Before;
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

export function createCommandHandler({ store, accounts: current, clock, log }: CommandHandlerDeps): CommandHandler {
  /** Accounts for which everything has been obeyed that was asked before they were opened. */
  const ready = new Set<string>();
  /** The pause that lasts, also where all accounts whose journals have it are gone. */
  let pause: JournalState['paused'];

  /** Writes it into the journals of those accounts that it changes something for, and says what was so before. */
  async function toAll(
    entry: JournalEntry,
    was: (state: JournalState) => Before | undefined,
    ends: boolean,
  ): Promise<Answer> {
    const accounts = current();
    const before = accounts.flatMap(({ journal }) => was(journal.state) ?? []).at(0);
    for (const { journal } of accounts) {
      if (!ends || was(journal.state)) await journal.append([entry]);
    }
    const result: StopResult = { accounts: accounts.map(({ name }) => name), ...(before ? { before } : {}) };
    return { ok: true, result };
  }

  async function approve(prefix: string, by: string): Promise<Answer> {
    const waiting = current().flatMap(({ name, policy, journal }) =>
      [...journal.state.actions.values()].flatMap(action =>
        waitsForApproval(action, clock.now()) ? [{ name, policy, journal, action }] : [],
      ),
    );
    const found = waiting.filter(
      ({ action: { id, target } }) => target.dlqId === prefix || (prefix.length >= SHORTEST && id.startsWith(prefix)),
    );
    const [one, another] = found;
    if (!one) return { ok: false, why: `no action ${prefix} waits for approval` };
    if (another) return { ok: false, why: `${found.length} actions begin with ${prefix}: give more characters` };
    const { id, rule, asker, approvedBy } = one.action;
    // Its operator saw another rule, or another policy, than would act on the approval.
    if (asker?.policy !== one.policy) {
      return {
        ok: false,
        why: `the rules have changed since approval of ${prefix} was requested; the agent requests it again if the callback is still stuck`,
      };
    }
    if (approvedBy === undefined) {
      await one.journal.append([{ at: clock.now(), action: id, step: 'approved', by }]);
    }
    return { ok: true, result: { account: one.name, action: id, rule } };
  }

  async function extendPause(): Promise<void> {
    pause ??= current().flatMap(({ journal }) => journal.state.paused ?? [])[0];
    if (!pause) return;
    for (const { name, journal } of current()) {
      if (!ready.has(name) && !journal.state.paused) await journal.append([{ ...pause, step: 'paused' }]);
    }
  }

  async function obey(command: Command): Promise<Answer> {
    const at = clock.now();
    switch (command.kind) {
      case 'pause':
      case 'resume': {
        const [step, ends] = command.kind === 'pause' ? (['paused', false] as const) : (['resumed', true] as const);
        const { by, reason } = command;
        const answer = await toAll({ at, step, by, reason }, state => state.paused, ends);
        pause = ends ? undefined : { at, by, reason };
        return answer;
      }
      case 'reset-breaker': {
        const { breaker, by, reason } = command;
        const entry: JournalEntry = { at, step: 'breaker_reset', breaker, by, reason };
        return toAll(entry, state => state.breakers.get(breaker), true);
      }
      case 'approve':
        return approve(command.action, command.by);
      case 'explain': {
        const asked = current().filter(({ name }) => command.account === undefined || name === command.account);
        return { ok: true, result: asked.flatMap(account => account.explain(command.dlqId) ?? []) };
      }
    }
  }

  async function answer(taken: Taken): Promise<void> {
    const given = await obey(taken.command);
    await store.commit(NO_ACCOUNT, answerChanges(taken, given, clock.now()));
    if (taken.command.kind === 'explain') return;
    if (given.ok) log.warn({ ...taken.command, ok: true }, 'operator command executed');
    else log.warn({ ...taken.command, ok: false, why: given.why }, 'operator command refused');
  }

  return {
    async serve() {
      const names = current().map(({ name }) => name);
      // What was asked while one was not there was not obeyed in it.
      for (const name of ready) if (!names.includes(name)) ready.delete(name);
      await extendPause();
      for (const taken of await takeCommands(store, { clock, log })) await answer(taken);
      for (const name of names) ready.add(name);
    },
    isReady: account => ready.has(account),
  };
}
