import { UNCOLLECTED } from '../../../metrics/thresholds.ts';
import type { Check } from './check.ts';
import { clockTime, lasting } from './words.ts';

/** An account that this replica does not hold. */
export interface Unheld {
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  /** URL of the replica that holds it. */
  readonly holder: string | undefined;
  /** For how many milliseconds no replica has held it; 0 while one does. */
  readonly unheldFor: number;
  /** Age of its status row, milliseconds; undefined: there was none since this replica began to read `waitedFor` ago. */
  readonly age: number | undefined;
  readonly waitedFor: number;
  /** Of the store, milliseconds. */
  readonly leaseTime: number;
  /** Whether the database answers: while it is away, nobody can tell. */
  readonly isAway: boolean;
}

/** Milliseconds without a report after which a holder does not count: it reports every 15 seconds. */
const SILENT = UNCOLLECTED * 1000;

/** Of accounts that this replica does not hold. */
export const REPLICAS: readonly Check<Unheld>[] = [
  {
    kind: 'account_uncollected',
    severity: 'critical',
    runbook: 'DeliveryAccountUncollected',
    when: 'replicas share the store, and for longer than the lease time none has held the account, or the one that holds it has reported nothing for two minutes',
    check({ now, holder, unheldFor, age, waitedFor, leaseTime, isAway }) {
      if (isAway) return [];
      const last = age === undefined ? 'nothing is known of it' : `what is shown is of ${clockTime(now - age, now)}`;
      if (holder === undefined) {
        if (unheldFor <= leaseTime) return [];
        const since = now - Math.max(unheldFor, age ?? 0);
        return { since, text: `Not collected by any replica: none holds it; ${last}.` };
      }
      const silent = age ?? waitedFor;
      if (silent <= SILENT) return [];
      const text = `Not collected by any replica: ${holder} holds it and has reported nothing for ${lasting(silent / 1000)}; ${last}.`;
      return { since: now - silent, text };
    },
  },
];
