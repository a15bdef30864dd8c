import { UNCOLLECTED } from '../../metrics/thresholds.ts';
import { type Check, defineCheck } from './check.ts';
import { clockTime, durationText } from './words.ts';

export interface UnheldAccount {
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  readonly holder: string | undefined;
  /** Time without a holder (ms). */
  readonly unheldFor: number;
  /** Age of the account's status row (ms); undefined if this replica has found none for `waitedFor` (ms). */
  readonly age: number | undefined;
  readonly waitedFor: number;
  readonly leaseTime: number;
  /** Whether the database is unavailable. Then the holder is unknown. */
  readonly isUnavailable: boolean;
}

/** Time without a report after which an account counts as not collected (ms). Holders report every 15 seconds. */
const SILENT = UNCOLLECTED * 1000;

/** Checks of an account that this replica does not hold. */
export const REPLICA_CHECKS: readonly Check<UnheldAccount>[] = [
  defineCheck('account_uncollected', 'DeliveryAccountUncollected', {
    when: 'no replica has held the account for longer than the lease time, or its holder has reported nothing for two minutes',
    check({ now, holder, unheldFor, age, waitedFor, leaseTime, isUnavailable }) {
      if (isUnavailable) return [];
      const last = age === undefined ? 'its state is unknown' : `the shown data is from ${clockTime(now - age, now)}`;
      if (holder === undefined) {
        if (unheldFor <= leaseTime) return [];
        const since = now - Math.max(unheldFor, age ?? 0);
        return { since, text: `Not collected by any replica: none holds it; ${last}.` };
      }
      const silent = age ?? waitedFor;
      if (silent <= SILENT) return [];
      const text = `Not collected by any replica: ${holder} holds it and has reported nothing for ${durationText(silent / 1000)}; ${last}.`;
      return { since: now - silent, text };
    },
  }),
];
