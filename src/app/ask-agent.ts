import {
  type Answer,
  ask,
  type Command,
  type PendingAction,
  pendingActions,
  readJournalState,
} from '../auto-cancel/index.ts';
import type { StoreSettings } from '../config/load.ts';
import type { Clock } from '../kit/clock.ts';
import type { Env } from '../kit/secret.ts';
import { attachStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import { type JournalLine, readJournals } from './auto-cancel.ts';

export type { Command, Explanation, PendingAction, StopResult } from '../auto-cancel/index.ts';
export { detailOf } from '../auto-cancel/words.ts';
export { BREAKERS } from '../model/journal.ts';
export type { JournalLine } from './auto-cancel.ts';

/** Milliseconds in which a running agent answers: it polls every second, and may be busy. */
const WAIT = 10_000;

async function withStore<T>(
  { store: options }: StoreSettings,
  env: Env,
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const store = await attachStore(options, { env });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** Gives a command to the running agent, through the store that both have. `speed`: of the clock. Rejects with StoreError. */
export function askAgent(
  settings: StoreSettings,
  command: Command,
  { env, speed = 1, ...deps }: { env: Env; clock: Clock; speed?: number | undefined; signal: AbortSignal },
): Promise<Answer | 'no_agent'> {
  // A replica that has gone leaves its accounts to others only when its leases have ended.
  const { kind, lease } = settings.store;
  const waitMs = WAIT * speed + (kind === 'postgres' ? lease : 0);
  return withStore(settings, env, store => ask(store, command, { waitMs, ...deps }));
}

/** The journals of all configured accounts from a time on, the oldest line first; whether an agent runs or not. */
export function journalOf(settings: StoreSettings, env: Env, since: number): Promise<JournalLine[]> {
  return withStore(settings, env, store => readJournals(store, settings.accounts, since));
}

/** Actions of all configured accounts that wait for approval at `now`, with or without a running agent. */
export function pendingOf(settings: StoreSettings, env: Env, now: number): Promise<PendingAction[]> {
  return withStore(settings, env, async store => {
    const found: PendingAction[] = [];
    for (const account of settings.accounts) {
      found.push(...pendingActions(await readJournalState(store, account), now));
    }
    return found.sort((a, b) => a.expiresAt - b.expiresAt);
  });
}
