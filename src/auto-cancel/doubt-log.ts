import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';

/** Milliseconds for which evidence may be in doubt before that is told: a start, or one bad walk, is no news. */
const TOLD_AFTER = 10 * 60_000;

/**
 * Tells when the evidence has been in doubt for long, and when it no longer is: without a new walk nothing is decided, so
 * nothing else would say why nothing happens. To be called often with what the gate doubts.
 */
export function createDoubtLog(deps: {
  readonly account: string;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly log: Log;
}): (reason: string | undefined) => void {
  const { account, clock, log } = deps;
  let since: number | undefined;
  let told: string | undefined;
  return reason => {
    if (reason === undefined) {
      if (told !== undefined) log.info({ account }, 'the evidence of auto-cancel is whole and fresh again');
      since = told = undefined;
      return;
    }
    since ??= clock.monotonic();
    const lasted = clock.monotonic() - since;
    if (lasted < TOLD_AFTER || told === reason) return;
    told = reason;
    const fields = { account, reason, seconds: Math.floor(lasted / 1000) };
    log.warn(fields, 'the evidence of auto-cancel is in doubt: nothing is cancelled until a walk reads everything');
  };
}
