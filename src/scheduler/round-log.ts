import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';

/** What the log says of one collector's rounds: a failure when it begins and every five minutes, its end once. */
export interface RoundLog {
  succeeded(round: string, seconds: number): void;
  /** `age`: milliseconds since the last complete round. */
  failed(round: string, why: { readonly reason: string; readonly error: string }, age: number): void;
}

interface RoundLogDeps {
  readonly account: string;
  readonly collector: string;
  readonly log: Log;
  readonly clock: Pick<Clock, 'monotonic'>;
}

/** A failure that lasts is logged again after so many milliseconds. */
const REPEAT_AFTER = 300_000;

export function createRoundLog({ account, collector, log, clock }: RoundLogDeps): RoundLog {
  const failing = new Map<string, { readonly reason: string; readonly loggedAt: number }>();
  return {
    succeeded(round, seconds) {
      const fields = { account, collector, round };
      if (failing.delete(round)) log.info(fields, 'collecting works again');
      else log.debug({ ...fields, seconds }, 'collected');
    },
    failed(round, why, age) {
      const fields = { account, collector, round, ...why, ageSeconds: Math.round(age / 1000) };
      const last = failing.get(round);
      const now = clock.monotonic();
      if (last?.reason === why.reason && now - last.loggedAt < REPEAT_AFTER) {
        log.debug(fields, 'collecting still fails');
        return;
      }
      failing.set(round, { reason: why.reason, loggedAt: now });
      if (why.reason === 'bug') log.error(fields, 'bug');
      else log.warn(fields, last?.reason === why.reason ? 'collecting still fails' : 'collecting failed');
    },
  };
}
