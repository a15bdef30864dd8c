import { pauseAutoCancel, resumeAutoCancel } from '../../src/auto-cancel/brake.ts';
import { orderApproval, orderReset, type PlacingDeps, resultOf } from '../../src/auto-cancel/orders.ts';
import type { Clock } from '../../src/kit/clock.ts';
import type { Breaker } from '../../src/model/journal.ts';
import type { Store } from '../../src/store/store.ts';

/** An operator's order from the command line. */
export type Order =
  | { readonly kind: 'pause'; readonly by: string; readonly reason: string }
  | { readonly kind: 'resume'; readonly by: string; readonly reason: string }
  | { readonly kind: 'reset-breaker'; readonly breaker: Breaker; readonly by: string; readonly reason: string }
  | { readonly kind: 'approve'; readonly action: string; readonly by: string };

export interface OperatorDeps extends Pick<PlacingDeps, 'accounts'> {
  readonly store: Pick<Store, 'scan' | 'sizes' | 'command' | 'create' | 'valuesOf'>;
  /** The operator's clock: time passes in `sleep`. */
  readonly clock: Clock;
  readonly waitMs: number;
}

/** Executes an order as the command line does. Returns `obeyed`, `waiting`, or the reason for a refusal. */
export async function giveOrder(order: Order, { store, accounts, clock, waitMs }: OperatorDeps): Promise<string> {
  const { signal } = new AbortController();
  const deps = { store, accounts, clock };
  switch (order.kind) {
    case 'pause':
      await pauseAutoCancel(store, order, { clock, signal, waiting: () => undefined });
      return 'obeyed';
    case 'resume':
      await resumeAutoCancel(store, order, clock);
      return 'obeyed';
  }
  const placed = [];
  if (order.kind === 'approve') {
    const found = await orderApproval(order, deps);
    if ('why' in found) return found.why;
    placed.push(found.placed);
  } else placed.push(...(await orderReset(order, deps)).map(reset => reset.placed));
  const results = [];
  for (const each of placed) results.push(await resultOf(each, store, { waitMs, clock, signal }));
  const refused = results.find(result => typeof result !== 'string');
  return refused?.refused ?? (results.includes('waiting') ? 'waiting' : 'obeyed');
}

/** Creates an operator's clock: time passes only in `sleep`, which runs `work`. */
export function operatorClock(
  { now }: Pick<Clock, 'now'>,
  work: () => Promise<unknown> = async () => undefined,
): Clock {
  let waited = 0;
  return {
    now,
    monotonic: () => waited,
    async sleep(ms) {
      waited += ms;
      await work();
    },
  };
}
