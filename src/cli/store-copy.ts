import type { StoreSettings } from '../config/load.ts';
import type { Clock } from '../kit/clock.ts';
import type { Env } from '../kit/secret.ts';
import type { Change } from '../model/change.ts';
import { attachStore, openStore } from '../store/open.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import { createLog } from '../telemetry/log.ts';

export { backupDatabase } from '../store/database.ts';

export interface CopyDeps {
  readonly env: Env;
  readonly clock: Clock;
}

/** Of no account, in the store that is copied to, until all is there: what a copy that was stopped has left may be replaced. */
const UNFINISHED = 'copy/unfinished';
/** Characters of a commit, about. */
const LARGEST_COMMIT = 2 ** 20;

/** Holds the accounts, so that no agent can write them meanwhile. Rejects where one runs. */
async function hold({ replicas }: Store, accounts: readonly string[], clock: Clock, where: string): Promise<void> {
  if (!replicas) return;
  const { self, leaseTime } = replicas;
  // One that was killed a moment ago still has its leases.
  const patience = clock.monotonic() + 2 * leaseTime;
  for (const held = new Set<string>(); ; ) {
    // It wants none of the accounts of replicas that run: they would give it a share of them.
    await replicas.renew([...held]);
    if (replicas.sharing()?.replicas.every(({ id }) => id === self.id)) {
      for (const account of (await replicas.renew(accounts)).gained) held.add(account);
      if (held.size === accounts.length) return;
    }
    if (clock.monotonic() > patience) throw new Error(`an agent uses ${where}: stop all of them first`);
    await clock.sleep(leaseTime / 10);
  }
}

async function renewed({ replicas }: Store, accounts: readonly string[]): Promise<void> {
  if (replicas && replicas.remaining(NO_ACCOUNT) < replicas.leaseTime / 2) await replicas.renew(accounts);
}

/** Also what was gained before it was refused. Where that fails, its leases end by themselves. */
async function close(store: Store, accounts: readonly string[]): Promise<void> {
  try {
    await store.replicas?.release(accounts);
    await store.replicas?.leave();
  } catch {
  } finally {
    await store.close();
  }
}

function* inParts(changes: readonly Change[]): Generator<readonly Change[]> {
  let part: Change[] = [];
  let size = 0;
  for (const change of changes) {
    part.push(change);
    size += change.key.length + (change.value?.length ?? 0);
    if (size < LARGEST_COMMIT) continue;
    yield part;
    [part, size] = [[], 0];
  }
  if (part.length > 0) yield part;
}

async function isUsed(store: Store, accounts: readonly string[]): Promise<boolean> {
  if ((await store.scan(NO_ACCOUNT, UNFINISHED)).size > 0) return false;
  for (const account of accounts) if ((await store.sizes(account, '')).size > 0) return true;
  return false;
}

/**
 * Copies what is stored of all accounts that are configured, and of none, into another store, which must be empty. No agent may
 * run on either. One that is stopped in between can be done again. Rejects with StoreError, or an Error that says what to do.
 */
export async function copyStore(
  from: StoreSettings,
  to: StoreSettings,
  { env, clock }: CopyDeps,
): Promise<{ readonly accounts: number; readonly rows: number }> {
  const log = createLog({ level: 'warn', format: 'text' });
  // Nobody asks this process anything: it is a replica only so that it can hold the accounts.
  const deps = { env, replica: { url: 'http://store-copy.invalid', clock, log } };
  const all = [NO_ACCOUNT, ...from.accounts];
  let rows = 0;
  // Else it would be made.
  await (await attachStore(from.store, { env })).close();
  const source = await openStore(from.store, deps);
  try {
    await hold(source, all, clock, 'the store that is copied');
    const target = await openStore(to.store, deps);
    try {
      await hold(target, all, clock, 'the store that is copied to');
      if (await isUsed(target, all))
        throw new Error('the store that is copied to is not empty: name another, or another schema');
      await target.commit(NO_ACCOUNT, [{ key: UNFINISHED, value: new Date(clock.now()).toISOString() }]);
      for (const account of all) {
        const known = await source.scan(account, '');
        const old = [...(await target.sizes(account, '')).keys()];
        const gone = old.filter(key => !known.has(key) && key !== UNFINISHED).map(key => ({ key, value: null }));
        for (const part of inParts([...gone, ...Array.from(known, ([key, value]) => ({ key, value }))])) {
          for (const store of [source, target]) await renewed(store, all);
          await target.commit(account, part);
        }
        rows += known.size;
      }
      await target.commit(NO_ACCOUNT, [{ key: UNFINISHED, value: null }]);
    } finally {
      await close(target, all);
    }
  } finally {
    await close(source, all);
  }
  return { accounts: from.accounts.length, rows };
}
