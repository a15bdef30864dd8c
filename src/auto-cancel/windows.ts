import { type CronWindow, isOpen } from '../kit/cron.ts';

/** When a rule may act. Times: milliseconds, those of `deny` since the Unix epoch. */
export interface Windows {
  /** None at all: always open. */
  readonly allow: readonly CronWindow[];
  /** Closed from `from` until right before `to`, whatever else is open. */
  readonly deny: readonly { readonly from: number; readonly to: number; readonly reason: string }[];
}

/** Why a rule may not act at `at`; undefined when it may. */
export function closedBy({ allow, deny }: Windows, at: number): 'window_denied' | 'window_closed' | undefined {
  if (deny.some(({ from, to }) => at >= from && at < to)) return 'window_denied';
  if (allow.length === 0) return undefined;
  return allow.some(window => isOpen(window, at)) ? undefined : 'window_closed';
}
