import { UNCOLLECTED } from '../../../metrics/thresholds.ts';
import type { Check } from './check.ts';
import { clockTime, lasting } from './words.ts';

/** What is known of an account that this replica does not hold. */
export interface Unheld {
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  /** URL of the replica that holds it. */
  readonly holder: string | undefined;
  /** For how many milliseconds no replica has held it; 0 while one does. */
  readonly unheldFor: number;
  /** How old what was told of it is, milliseconds; undefined: nothing was, since this replica first asked `waitedFor` ago. */
  readonly age: number | undefined;
  readonly waitedFor: number;
  /** Of the store, milliseconds. */
  readonly leaseTime: number;
  /** Whether the database answers: while it is away, nobody can tell. */
  readonly isAway: boolean;
}

/** Milliseconds after which a holder that tells nothing is no holder: it tells twice a minute. */
const SILENT = UNCOLLECTED * 1000;

/** Of accounts that this replica does not hold. */
export const REPLICAS: readonly Check<Unheld>[] = [
  {
    kind: 'account_uncollected',
    severity: 'critical',
    runbook: 'DeliveryAccountUncollected',
    when: 'replicas share the store, and for longer than the lease time none has held the account, or the one that holds it has told nothing of it for two minutes',
    check({ now, holder, unheldFor, age, waitedFor, leaseTime, isAway }) {
      if (isAway) return [];
      const last = age === undefined ? 'nothing is known of it' : `what is shown is of ${clockTime(now - age, now)}`;
      if (holder === undefined) {
        if (unheldFor <= leaseTime) return [];
        const since = now - Math.max(unheldFor, age ?? 0);
        return [{ since, text: `Not collected by any replica: none holds it; ${last}.` }];
      }
      const silent = age ?? waitedFor;
      if (silent <= SILENT) return [];
      const text = `Not collected by any replica: ${holder} holds it and has told nothing of it for ${lasting(silent / 1000)}; ${last}.`;
      return [{ since: now - silent, text }];
    },
  },
];
