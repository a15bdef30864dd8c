import { agentUrls, readStoredKey } from '../agent/peer-key.ts';
import { type JournalLine, ORDER_WAIT, RESUME_RACED, readJournals } from '../auto-cancel/accounts.ts';
import { type PauseDeps, pauseAutoCancel, resumeAutoCancel } from '../auto-cancel/brake.ts';
import type { Explanation } from '../auto-cancel/explain.ts';
import { readJournalState } from '../auto-cancel/journal.ts';
import { orderApproval, orderReset, resultOf } from '../auto-cancel/orders.ts';
import { type PendingAction, pendingActions } from '../auto-cancel/waits.ts';
import type { StoreSettings } from '../config/load.ts';
import { askPeer, type PeerKey } from '../http/peer.ts';
import type { Clock } from '../kit/clock.ts';
import type { Env } from '../kit/secret.ts';
import { attachStore } from '../store/open.ts';
import { isGuardFailed, type Store } from '../store/store.ts';

export type { JournalLine } from '../auto-cancel/accounts.ts';
export type { Explanation } from '../auto-cancel/explain.ts';
export type { PendingAction } from '../auto-cancel/waits.ts';
export { detailOf } from '../auto-cancel/words.ts';
export { BREAKERS } from '../model/journal.ts';

/** What operators do through the store, whether an agent runs or not. */

interface Deps {
  readonly env: Env;
  readonly clock: Clock;
  /** How much faster than real time the clock runs; default 1. */
  readonly speed?: number | undefined;
  readonly signal: AbortSignal;
}

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

type Stop = Parameters<typeof pauseAutoCancel>[1];

/** As `pauseAutoCancel`. */
export function pause(
  settings: StoreSettings,
  order: Stop,
  { env, ...deps }: Deps & Pick<PauseDeps, 'waiting'>,
): ReturnType<typeof pauseAutoCancel> {
  return withStore(settings, env, store => pauseAutoCancel(store, order, deps));
}

/** As `resumeAutoCancel`, but rejects with an Error for the operator if another one pauses or resumes at the same time. */
export function resume(
  settings: StoreSettings,
  order: Stop,
  { env, clock }: Deps,
): ReturnType<typeof resumeAutoCancel> {
  return withStore(settings, env, async store => {
    try {
      return await resumeAutoCancel(store, order, clock);
    } catch (error) {
      throw isGuardFailed(error) ? new Error(RESUME_RACED, { cause: error }) : error;
    }
  });
}

/** Approves an action, and waits a moment for the agent to execute that. Rejects as `orderApproval` does. */
export function approve(
  settings: StoreSettings,
  order: { action: string; by: string },
  { env, speed = 1, ...deps }: Deps,
) {
  return withStore(settings, env, async store => {
    const found = await orderApproval(order, { store, accounts: settings.accounts, ...deps });
    if ('why' in found) return found;
    return { ...found, executed: await resultOf(found.placed, store, { waitMs: ORDER_WAIT * speed, ...deps }) };
  });
}

/** Resets a breaker in each account in which it is open, and waits a moment for that. Rejects as `orderReset` does. */
export function resetBreaker(
  settings: StoreSettings,
  order: Parameters<typeof orderReset>[0],
  { env, speed = 1, ...deps }: Deps,
) {
  return withStore(settings, env, async store => {
    const resets = await orderReset(order, { store, accounts: settings.accounts, ...deps });
    const waiting = resets.map(async reset => ({
      ...reset,
      executed: await resultOf(reset.placed, store, { waitMs: ORDER_WAIT * speed, ...deps }),
    }));
    return Promise.all(waiting);
  });
}

/**
 * Asks a running agent of the store over HTTP, which asks the replica that holds the account. The key for that is in the store, so
 * no password is needed. `no_agent`: none answered. Rejects with StoreError.
 */
export function explain(
  settings: StoreSettings,
  { dlqId: id, account }: { dlqId: string; account: string | undefined },
  { env, signal }: Deps,
): Promise<readonly Explanation[] | 'no_agent'> {
  return withStore(settings, env, async store => {
    const key = await readStoredKey(store);
    const urls = key ? await agentUrls(store) : [];
    for (const url of urls) {
      const question = { url, id, account, isSentOn: false, isLocal: settings.store.kind === 'sqlite' };
      try {
        return (await askPeer(question, key as PeerKey, signal)) as Explanation[];
      } catch {
        signal.throwIfAborted();
      }
    }
    return 'no_agent';
  });
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
