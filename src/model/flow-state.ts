import type { FlowControlEntry } from './message.ts';
import type { GlobalParallelism } from './service.ts';

/** States of a flow-control key. If several apply, the first one counts. */
export const FLOW_STATES = [
  'paused',
  'idle',
  'rate_limited',
  'parallelism_full',
  'account_full',
  'moving',
  'waiting',
] as const;
export type FlowState = (typeof FLOW_STATES)[number];

const reaches = (used: number | undefined, limit: number | undefined) =>
  used !== undefined && limit !== undefined && used >= limit;

/** Whether the account's parallelism is used up; false if that is unknown. */
export const isAccountFull = (account: GlobalParallelism | undefined) => reaches(account?.inUse, account?.limit);

const differs = (now: number | undefined, before: number | undefined) =>
  now !== undefined && before !== undefined && now !== before;

/**
 * Returns the state of a flow-control key from its last two reads, as the first of these that applies:
 *
 * 1. `paused`: the key is paused.
 * 2. `idle`: no message waits.
 * 3. `rate_limited`: the rate of the current period is used up.
 * 4. `parallelism_full`: as many deliveries run as the parallelism allows.
 * 5. `account_full`: as many deliveries run as the parallelism of the account allows.
 * 6. `moving`: the waitlist, the parallelism in use or the used rate has changed since the previous read.
 * 7. `waiting`: none of these has changed.
 *
 * Returns undefined if the size of the waitlist is unknown, or if only a missing previous read could distinguish `moving` from
 * `waiting`. An unreported field supports no state.
 */
export function flowStateOf(
  key: FlowControlEntry,
  previous: FlowControlEntry | undefined,
  account?: GlobalParallelism,
): FlowState | undefined {
  if (key.paused) return 'paused';
  if (key.waitlistSize === undefined) return undefined;
  if (key.waitlistSize === 0) return 'idle';
  if (reaches(key.rateUsed, key.rateLimit)) return 'rate_limited';
  if (reaches(key.parallelismInUse, key.parallelismLimit)) return 'parallelism_full';
  if (isAccountFull(account)) return 'account_full';
  if (!previous) return undefined;
  const hasMoved =
    key.waitlistSize !== previous.waitlistSize ||
    differs(key.parallelismInUse, previous.parallelismInUse) ||
    differs(key.rateUsed, previous.rateUsed);
  return hasMoved ? 'moving' : 'waiting';
}
