import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { FailedFilter } from '../model/status.ts';

interface RoundLogDeps {
  readonly account: string;
  readonly collector: string;
  readonly log: Log;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Whether the store is unavailable, which is logged once for all accounts. */
  readonly isStoreUnavailable?: (() => boolean) | undefined;
}

/** Interval at which a continuing failure with the same reason is logged again (ms). */
const REPEAT_AFTER = 300_000;

/** Logs a collector's rounds: each failure reason immediately and every five minutes, and the recovery once. */
export function createRoundLog({ account, collector, log, clock, isStoreUnavailable }: RoundLogDeps) {
  /** Time when each reason was last logged (monotonic clock), by round. */
  const failing = new Map<string, Map<string, number>>();
  const failingFilters = new Map<string, { readonly reason: string; readonly at: number }>();
  return {
    succeeded(round: string, seconds: number): void {
      const fields = { account, collector, round };
      if (failing.delete(round)) log.info(fields, 'collection recovered');
      else log.debug({ ...fields, seconds }, 'collected');
    },
    /** `age`: time since the last complete round (ms). */
    failed(round: string, why: { readonly reason: string; readonly error: string }, age: number) {
      const fields = { account, collector, round, ...why, ageSeconds: Math.round(age / 1000) };
      if (why.reason === 'store' && isStoreUnavailable?.()) return log.debug(fields, 'round waits for the store');
      const logged = failing.get(round) ?? new Map<string, number>();
      failing.set(round, logged);
      const last = logged.get(why.reason);
      const now = clock.monotonic();
      if (last !== undefined && now - last < REPEAT_AFTER) {
        log.debug(fields, 'collection still fails');
        return;
      }
      logged.set(why.reason, now);
      if (why.reason === 'bug') log.error(fields, 'bug');
      else log.warn(fields, last === undefined ? 'collection failed' : 'collection still fails');
    },
    filters(failed: readonly FailedFilter[]): void {
      const names = new Set(failed.map(({ name }) => name));
      for (const filter of failingFilters.keys()) {
        if (names.has(filter)) continue;
        failingFilters.delete(filter);
        log.info({ account, collector, filter }, 'filter recovered');
      }
      const now = clock.monotonic();
      for (const { name, reason, message } of failed) {
        const last = failingFilters.get(name);
        if (last?.reason === reason && now - last.at < REPEAT_AFTER) continue;
        failingFilters.set(name, { reason, at: now });
        log.warn({ account, collector, filter: name, reason, error: message }, 'filter failed');
      }
    },
  };
}
