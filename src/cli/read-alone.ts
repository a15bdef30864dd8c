import type { AccountSettings } from '../agent/account-client.ts';
import { openAccounts, type PartsDeps } from '../agent/parts.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import type { Closing } from '../kit/closing.ts';
import { createMemoryStore } from '../store/memory.ts';
import { attachStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';

const SPENT = 'budget/spent';

/** Opens the agent's store; undefined if it is in memory or missing. */
async function storeOf({ config }: LoadedConfig, env: PartsDeps['env']): Promise<Store | undefined> {
  try {
    return await attachStore(config.store, { env });
  } catch (error) {
    const reason = error instanceof Error && 'reason' in error ? error.reason : undefined;
    if (reason !== 'missing' && reason !== 'unshared') throw error;
    return undefined;
  }
}

/** Creates a separate store that contains the agent's budget use of this day. */
async function ownStore(accounts: readonly AccountSettings[], store: Store | undefined): Promise<Store> {
  const own = createMemoryStore();
  for (const { name } of accounts) {
    const spent = (await store?.scan(name, SPENT))?.get(SPENT);
    if (spent !== undefined) await own.commit(name, [{ key: SPENT, value: spent }]);
  }
  return own;
}

/**
 * Opens the accounts for reading, with a separate in-memory store that contains the agent's remaining daily budget. `store`: the
 * agent's own store, which is not changed.
 */
export async function openForReading(
  loaded: LoadedConfig,
  { env, clock, random }: Pick<PartsDeps, 'env' | 'clock' | 'random'>,
  closing: Closing,
) {
  const { config } = loaded;
  const store = await storeOf(loaded, env);
  if (store) closing.add('store', () => store.close());
  const own = await ownStore(config.accounts, store);
  const alone = { ...config, store: { ...config.store, kind: 'memory' as const } };
  const parts = { env, clock, random, openStore: async () => own };
  return { accounts: await openAccounts({ ...loaded, config: alone }, parts, closing), store };
}

/** Returns a configuration of the whole agent that sends, stores and cancels nothing. */
export const passive = (config: Config): Config => ({
  ...config,
  log: { ...config.log, level: 'silent' },
  store: { ...config.store, kind: 'memory' },
  heartbeat: null,
  push: { metrics: { ...config.push.metrics, enabled: false } },
  tracing: { ...config.tracing, enabled: false },
  alerts: { ...config.alerts, enabled: false, notifiers: [] },
  autoCancel: { ...config.autoCancel, mode: 'off', rules: [] },
});
