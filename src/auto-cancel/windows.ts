import { Cron } from 'croner';

/** When a rule may act. Times: milliseconds, those of `deny` since the Unix epoch. */
export interface Windows {
  /** Each opens whenever its cron expression (five fields) is due by the clocks of `tz`. None at all: always open. */
  readonly allow: readonly { readonly cron: string; readonly for: number; readonly tz: string }[];
  /** Closed from `from` until right before `to`, whatever else is open. */
  readonly deny: readonly { readonly from: number; readonly to: number; readonly reason: string }[];
}

/** The first time after `at` when the expression is due; undefined when it never is. Throws when it is none. */
function nextDue(cron: string, tz: string, at: number): number | undefined {
  // Without a function it starts no timer.
  return new Cron(cron, { mode: '5-part', timezone: tz }).nextRun(new Date(at))?.getTime();
}

/** Why text is no cron expression that opens a window; undefined when it is one. */
export function faultOfCron(cron: string): string | undefined {
  try {
    // Dates and nicknames would pass, too; other programs do not know them.
    if (cron.trim().split(/\s+/).length === 5) return nextDue(cron, 'UTC', 0) === undefined ? NEVER : undefined;
  } catch {}
  return "must be a cron expression of five fields, such as '0 8 * * 1-5'";
}

const NEVER = 'never comes';

export function isTimeZone(tz: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: tz });
    return true;
  } catch {
    return false;
  }
}

/** Why a rule may not act at `at`; undefined when it may. A window opens at a moment and lasts real time, whatever the clocks do meanwhile. */
export function closedBy({ allow, deny }: Windows, at: number): 'window_denied' | 'window_closed' | undefined {
  if (deny.some(({ from, to }) => at >= from && at < to)) return 'window_denied';
  if (allow.length === 0) return undefined;
  const isOpen = allow.some(({ cron, tz, for: length }) => (nextDue(cron, tz, at - length) ?? Infinity) <= at);
  return isOpen ? undefined : 'window_closed';
}
