import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import { readCommands, spreadCommands } from './command-spreading.ts';
import { answerChanges, type Taken, takeCommands } from './commands.ts';
import type { Explanation } from './explain.ts';
import type { OrderAccount } from './orders.ts';

export interface CommandAccount extends OrderAccount {
  explain(id: string): Explanation | undefined;
}

interface Shared {
  /** Names of all accounts, whichever replica holds them. */
  configured(): readonly string[];
  /** Whether this replica does the agent-wide work. */
  ownsAgentTasks(): boolean;
}

export interface CommandHandlerDeps {
  readonly store: Store;
  /** Accounts that this process holds. */
  accounts(): readonly CommandAccount[];
  /** Set if replicas share the store; undefined if all accounts are this process's. */
  readonly shared?: Shared | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** Answers what operators ask through the store. `serve` rejects with StoreError; what was not answered is answered next time. */
export function createCommandHandler({ store, accounts, shared, clock, log }: CommandHandlerDeps): {
  serve(): Promise<void>;
} {
  async function answer(taken: Taken, asked: readonly CommandAccount[], account?: string): Promise<void> {
    const { command } = taken;
    const result = asked
      .filter(({ name }) => command.account === undefined || name === command.account)
      .flatMap(each => each.explain(command.dlqId) ?? []);
    await store.commit(NO_ACCOUNT, answerChanges(taken, { ok: true, result }, clock.now(), account));
  }

  return {
    async serve() {
      if (!shared) {
        for (const taken of await takeCommands(store, { clock, log })) await answer(taken, accounts());
        return;
      }
      let waiting = await readCommands(store, clock.now());
      if (shared.ownsAgentTasks()) {
        await spreadCommands(store, waiting, shared.configured(), { clock, log });
        if (waiting.unspread.length > 0) waiting = await readCommands(store, clock.now());
      }
      const own = new Map(accounts().map(account => [account.name, account]));
      for (const taken of waiting.ofAccounts) {
        const account = own.get(taken.account);
        if (account) await answer(taken, [account], taken.account);
      }
    },
  };
}
