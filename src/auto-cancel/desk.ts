import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { JournalEntry } from '../model/journal.ts';
import type { Store } from '../store/store.ts';
import { type Answer, answerChanges, COMMAND_ACCOUNT, type Command, type Taken, takeCommands } from './commands.ts';
import type { Explanation } from './explain.ts';
import type { Journal } from './journal.ts';
import type { JournalState } from './journal-state.ts';

/** One account as commands see it. */
export interface DeskAccount {
  readonly name: string;
  readonly journal: Journal;
  explain(id: string): Explanation | undefined;
}

export interface DeskDeps {
  readonly store: Store;
  readonly accounts: readonly DeskAccount[];
  readonly clock: Clock;
  readonly log: Log;
}

/** What a brake was like before a command: the pause that lasted, or why the breaker was open. `at`: milliseconds since the Unix epoch. */
interface Before {
  readonly at: number;
  readonly by?: string;
  readonly reason: string;
}

/** The result of `pause`, `resume` and `reset-breaker`. Without `before`: there was no pause, and the breaker was not open. */
export interface BrakeResult {
  readonly accounts: readonly string[];
  readonly before?: Before;
}

/** Obeys what people ask through the store. */
export interface Desk {
  /** Obeys the commands that wait. Throws StoreError; what was not answered is then obeyed once more, which changes nothing. */
  serve(): Promise<void>;
}

/** So many characters of an action's identifier tell it from others, or are refused. */
const SHORTEST = 6;

export function createDesk({ store, accounts, clock, log }: DeskDeps): Desk {
  /** Writes it into the journals of those accounts that it changes something for, and says what was so before. */
  async function toAll(
    entry: JournalEntry,
    was: (state: JournalState) => Before | undefined,
    ends: boolean,
  ): Promise<Answer> {
    const before = accounts.flatMap(({ journal }) => was(journal.state) ?? []).at(0);
    for (const { journal } of accounts) {
      if (!ends || was(journal.state)) await journal.append([entry]);
    }
    const result: BrakeResult = { accounts: accounts.map(({ name }) => name), ...(before ? { before } : {}) };
    return { ok: true, result };
  }

  async function approve(prefix: string, by: string): Promise<Answer> {
    const waiting = accounts.flatMap(({ name, journal }) =>
      [...journal.state.actions.values()].flatMap(action =>
        action.approvalUntil !== undefined && clock.now() < action.approvalUntil ? [{ name, journal, action }] : [],
      ),
    );
    const found = waiting.filter(
      ({ action: { id, target } }) => target.dlqId === prefix || (prefix.length >= SHORTEST && id.startsWith(prefix)),
    );
    const [one, another] = found;
    if (!one) return { ok: false, why: `nothing waits for approval under ${prefix}` };
    if (another) return { ok: false, why: `${found.length} actions begin with ${prefix}` };
    const { id, rule, approvedBy } = one.action;
    if (approvedBy === undefined) {
      await one.journal.append([{ at: clock.now(), action: id, step: 'approved', by }]);
    }
    return { ok: true, result: { account: one.name, action: id, rule } };
  }

  async function obey(command: Command): Promise<Answer> {
    const at = clock.now();
    switch (command.kind) {
      case 'pause':
        return toAll({ at, step: 'paused', by: command.by, reason: command.reason }, state => state.paused, false);
      case 'resume':
        return toAll({ at, step: 'resumed', by: command.by, reason: command.reason }, state => state.paused, true);
      case 'reset-breaker': {
        const { breaker, by, reason } = command;
        const entry: JournalEntry = { at, step: 'breaker_reset', breaker, by, reason };
        return toAll(entry, state => state.breakers.get(breaker), true);
      }
      case 'approve':
        return approve(command.action, command.by);
      case 'explain': {
        const asked = accounts.filter(({ name }) => command.account === undefined || name === command.account);
        return { ok: true, result: asked.flatMap(account => account.explain(command.dlqId) ?? []) };
      }
    }
  }

  async function answer(taken: Taken): Promise<void> {
    const given = await obey(taken.command);
    await store.commit(COMMAND_ACCOUNT, answerChanges(taken, given, clock.now()));
    const { kind } = taken.command;
    if (kind !== 'explain') log.warn({ ...taken.command, ok: given.ok }, 'a command was obeyed');
  }

  return {
    async serve() {
      for (const taken of await takeCommands(store, { clock, log })) await answer(taken);
    },
  };
}
