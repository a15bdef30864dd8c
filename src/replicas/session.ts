import { unlessAborted } from '../kit/clock.ts';
import { StoreError } from '../store/errors.ts';
import type { Store } from '../store/store.ts';
import type { Budget } from '../upstream/budget.ts';
import { UpstreamError } from '../upstream/errors.ts';
import type { Leadership } from './leadership.ts';

type Leading = Pick<Leadership, 'remaining' | 'confirm' | 'isUnavailable'>;

/** Permission of an opened account to send requests and to commit, until it is revoked. */
export type Session = ReturnType<typeof createSession>;

/**
 * Creates the session of an account. `storeFor`: returns a handle that refuses commits once `isRevoked` is true; `leadership`:
 * undefined if no other process uses the store.
 */
export function createSession(
  account: string,
  storeFor: (isRevoked: () => boolean) => Store,
  leadership: Leading | undefined,
) {
  let isRevoked = false;
  return {
    account,
    store: storeFor(() => isRevoked),
    leadership: {
      remaining: () => (isRevoked ? 0 : (leadership?.remaining() ?? Number.POSITIVE_INFINITY)),
      confirm: async () => !isRevoked && (leadership ? leadership.confirm() : true),
      isUnavailable: () => leadership?.isUnavailable() ?? false,
    } satisfies Leading,
    get isRevoked() {
      return isRevoked;
    },
    revoke(): void {
      isRevoked = true;
    },
  };
}

/** Wraps a budget so that, if the lease has expired when a wait ends, this process first confirms that it still leads. */
export function whileLeading(budget: Budget, leadership: Pick<Leading, 'remaining' | 'confirm'> | undefined): Budget {
  if (!leadership) return budget;
  return {
    ...budget,
    run: (priority, signal, work) =>
      budget.run(priority, signal, async () => {
        if (leadership.remaining() <= 0) {
          const isLeading = await unlessAborted(leadership.confirm(), signal);
          signal.throwIfAborted();
          if (!isLeading) throw new UpstreamError('refused', 'another process leads');
        }
        return work();
      }),
  };
}

type Committing = Pick<Leadership, 'isUnavailable' | 'isLeading' | 'renew' | 'assertAvailable' | 'shutdownSignal'>;

const concernsDatabase = ({ reason }: StoreError) => !['invalid', 'guard_failed', 'closed'].includes(reason);

/**
 * Creates the handle through which the agent uses its store. The reason of a refused commit is one of:
 *
 * | reason          | meaning |
 * | --------------- | ------- |
 * | `revoked`       | this process has closed the account of the session |
 * | `not_held`      | another process leads |
 * | `lease_expired` | this process was paused for longer than the lease, but still leads: repeat the commit |
 * | `guard_failed`  | the row of the guard does not have the expected value |
 *
 * A failed commit triggers a renewal, which detects a lost lease or an unavailable database. While the database is unavailable,
 * only lease requests are sent, so that rounds and shutdowns do not wait for it. `leadership`: undefined if no other process
 * uses the store.
 */
export function createStoreHandle(
  store: Store,
  leadership: Committing | undefined,
  isRevoked: () => boolean = () => false,
): Store {
  async function send<T>(request: () => Promise<T>): Promise<T> {
    if (!leadership) return request();
    leadership.assertAvailable();
    leadership.shutdownSignal.throwIfAborted();
    return unlessAborted(request(), leadership.shutdownSignal);
  }

  /** Returns the error for the caller of a failed commit. If the lease may be lost, renews it first. */
  async function refusal(error: unknown): Promise<unknown> {
    if (!leadership?.isLeading() || leadership.shutdownSignal.aborted || !(error instanceof StoreError)) return error;
    const isRefused = error.reason === 'not_held';
    if (isRefused || (concernsDatabase(error) && !leadership.isUnavailable())) await leadership.renew();
    return isRefused && leadership.isLeading() ? new StoreError('lease_expired', 'the store') : error;
  }

  return {
    ...store,
    scan: (...which) => send(() => store.scan(...which)),
    sizes: (...which) => send(() => store.sizes(...which)),
    valuesOf: key => send(() => store.valuesOf(key)),
    create: (...which) => send(() => store.create(...which)),
    command: (...what) => send(() => store.command(...what)),
    async commit(account, ...what) {
      if (isRevoked()) throw new StoreError('revoked', `the account ${account}`);
      try {
        await send(() => store.commit(account, ...what));
      } catch (error) {
        throw await refusal(error);
      }
    },
  };
}
