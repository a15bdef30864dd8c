import { nextDue } from '../kit/cron.ts';

/** When a rule may act. Times: milliseconds, those of `deny` since the Unix epoch. */
export interface Windows {
  /** Each opens whenever its cron expression (five fields) is due by the clocks of `tz`. None at all: always open. */
  readonly allow: readonly { readonly cron: string; readonly for: number; readonly tz: string }[];
  /** Closed from `from` until right before `to`, whatever else is open. */
  readonly deny: readonly { readonly from: number; readonly to: number; readonly reason: string }[];
}

/** Why a rule may not act at `at`; undefined when it may. A window opens at a moment and lasts real time, whatever the clocks do meanwhile. */
export function closedBy({ allow, deny }: Windows, at: number): 'window_denied' | 'window_closed' | undefined {
  if (deny.some(({ from, to }) => at >= from && at < to)) return 'window_denied';
  if (allow.length === 0) return undefined;
  const isOpen = allow.some(({ cron, tz, for: length }) => (nextDue(cron, tz, at - length) ?? Infinity) <= at);
  return isOpen ? undefined : 'window_closed';
}
