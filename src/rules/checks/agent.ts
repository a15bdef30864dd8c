import { MINUTE } from '../../kit/duration.ts';
import type { NotificationCount } from '../../metrics/alerting.ts';
import { RECENT_REQUESTS } from '../../metrics/thresholds.ts';
import type { AccountStatus } from '../../model/status.ts';
import { type Check, defineCheck, UNKNOWN } from './check.ts';
import { inLast, plural } from './words.ts';

export interface AgentInput {
  /** Times are in milliseconds since the Unix epoch. */
  readonly now: number;
  readonly statuses: readonly AccountStatus[];
  /** Counts within `RECENT_REQUESTS`, or since the agent started. */
  readonly notifications: readonly NotificationCount[];
  /** Start of an outage of the shared database; undefined while the database responds. */
  readonly databaseAway?: number | undefined;
  /** The last reload. `faults` is empty if it succeeded. */
  readonly lastReload: { readonly at: number; readonly faults: readonly { readonly message: string }[] } | undefined;
}

/** Returns the failures of rounds that read all their data but could not store it. */
const unstored = ({ collectors }: AccountStatus) =>
  collectors.flatMap(({ rounds }) =>
    rounds.flatMap(({ complete, success, failure }) => (complete === true && success === false ? (failure ?? []) : [])),
  );

/** Whether a round of the account has stored its data since the agent started. */
const hasStored = ({ collectors }: AccountStatus) =>
  collectors.some(({ rounds }) => rounds.some(({ complete, success }) => complete === true && success === true));

export const AGENT_CHECKS: readonly Check<AgentInput>[] = [
  defineCheck('database_away', 'DeliveryStoreFailing', {
    severity: 'critical',
    for: 3 * MINUTE,
    when: 'the PostgreSQL database does not respond to the leader',
    check({ databaseAway: since }) {
      const text = 'The database is unavailable: counters are frozen, and auto-cancel is suspended.';
      return since === undefined ? [] : { since, text };
    },
  }),
  defineCheck('store_failing', 'DeliveryStoreFailing', {
    severity: 'critical',
    for: 2 * MINUTE,
    when: 'collectors can read all their data, but the agent cannot write the data to its store',
    check({ statuses, databaseAway }) {
      // The check above reports database outages.
      if (databaseAway !== undefined) return [];
      const failures = statuses.flatMap(unstored);
      const [first] = failures;
      if (!first) return statuses.length === 0 || statuses.some(hasStored) ? [] : UNKNOWN;
      return `${plural(failures.length, 'round')} can’t store new data, so counters are frozen: ${first.message}.`;
    },
  }),
  defineCheck('notifications_failing', 'DeliveryOutputFailing', {
    severity: 'critical',
    for: 10 * MINUTE,
    when: `all notifications to a receiver failed ${inLast(RECENT_REQUESTS)}`,
    check: ({ notifications }) =>
      [...Map.groupBy(notifications, ({ notifier }) => notifier)].flatMap(([subject, counts]) => {
        const total = (...which: readonly string[]) =>
          counts.reduce((sum, { outcome, count }) => (which.includes(outcome) ? sum + count : sum), 0);
        const [sent, failed] = [total('sent'), total('failed')];
        const text = `${plural(failed, 'notification')} to ${subject} failed ${inLast(RECENT_REQUESTS)}, and none was delivered.`;
        // Without any attempt, as after a restart, an earlier failure may persist.
        if (sent + failed === 0) return { subject, isUnknown: true as const };
        return sent > 0 ? [] : { subject, text };
      }),
  }),
  defineCheck('reload_refused', 'DeliveryConfigReloadFailed', {
    for: 5 * MINUTE,
    when: 'the agent rejected the last reload of the configuration. The previous configuration stays active',
    check({ lastReload }) {
      const [first, ...others] = lastReload?.faults ?? [];
      if (!first) return [];
      const more = others.length === 0 ? '' : ` (and ${plural(others.length, 'more error')})`;
      const text = `The new configuration was rejected, and the previous one stays active: ${first.message}${more}.`;
      return { since: lastReload?.at, text };
    },
  }),
];
