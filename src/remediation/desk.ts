import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { JournalEntry } from '../model/journal.ts';
import type { Store } from '../store/store.ts';
import { type Answer, answerChanges, COMMAND_ACCOUNT, type Command, type Taken, takeCommands } from './commands.ts';
import type { Explanation } from './explain.ts';
import type { Journal } from './journal.ts';

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

/** Obeys what people ask through the store. */
export interface Desk {
  /** Obeys the commands that wait. Throws StoreError; what was not answered is then obeyed once more, which changes nothing. */
  serve(): Promise<void>;
}

/** So many characters of an action's identifier tell it from others, or are refused. */
const SHORTEST = 6;

export function createDesk({ store, accounts, clock, log }: DeskDeps): Desk {
  async function toAll(entry: JournalEntry): Promise<Answer> {
    for (const { journal } of accounts) await journal.append([entry]);
    return { ok: true, result: { accounts: accounts.map(({ name }) => name) } };
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
        return toAll({ at, step: 'paused', by: command.by, reason: command.reason });
      case 'resume':
        return toAll({ at, step: 'resumed', by: command.by, reason: command.reason });
      case 'reset-breaker': {
        const { breaker, by, reason } = command;
        return toAll({ at, step: 'breaker_reset', breaker, by, reason });
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
