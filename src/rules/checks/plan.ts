import { dlqFamilies, type PlanFacts } from '../../collectors/index.ts';
import { between } from '../../history/points.ts';
import { ALWAYS, HOUR } from '../../history/recent.ts';
import { MINUTE } from '../../kit/duration.ts';
import { DLQ_DIFFERENCE, QUOTA_USED } from '../../metrics/thresholds.ts';
import type { CheckInput } from './account.ts';
import { type AccountCheck, type BuiltinAlert, defineCheck, type Findings, UNKNOWN } from './check.ts';
import { clockTime, count } from './words.ts';

type Plan = PlanFacts & { readonly usage: NonNullable<PlanFacts['usage']> };

/** Defines a check of the last read of the management API, for accounts that configure it. */
const planCheck = (
  kind: AccountCheck['kind'],
  alert: BuiltinAlert,
  {
    check,
    ...definition
  }: Partial<Omit<AccountCheck, 'check'>> & {
    readonly when: string;
    readonly check: (input: CheckInput, plan: Plan) => Findings;
  },
): AccountCheck =>
  defineCheck(kind, alert, {
    ...definition,
    check(input) {
      if (!input.rounds.some(({ collector, round }) => collector === 'account' && round === 'usage')) return [];
      const plan = input.shown.account?.now;
      return plan?.usage && input.dataOf('account').data === 'fresh'
        ? check(input, { ...plan, usage: plan.usage })
        : UNKNOWN;
    },
  });

const DAY = 24 * HOUR;
/** Minimum time of the day from which a rate is computed (ms). */
const MIN_TIME = HOUR;
/** Precision of the forecast (ms). */
const ROUNDED_TO = 10 * MINUTE;
/** Time for which a changed plan is reported (ms). */
const NEWS_FOR = DAY;
/** The management API may have counted dead letters up to this time before it was read (ms). */
const COUNTED_BEFORE = 10 * MINUTE;

export const PLAN: readonly AccountCheck[] = [
  planCheck('quota_ending', 'DeliveryQuotaEnding', {
    keepFiringFor: HOUR,
    when: 'the plan’s daily quota of requests is used up, or will be used up before 00:00 UTC at the average rate of the day. This forecast starts at 01:00 UTC, and only after half of the quota is used. If the hard limit is reached, the severity is `critical`',
    check({ now, serviceNow }, { usage: { at, requestsToday: used }, limits }) {
      const { requests_per_day: quota, requests_per_day_hard: hard } = limits;
      if (quota === undefined || quota === 0) return [];
      if (used === undefined) return UNKNOWN;
      // The count restarts at midnight by the service's clock.
      const readAt = at + serviceNow - now;
      const midnight = Math.floor(readAt / DAY) * DAY;
      if (serviceNow >= midnight + DAY) return [];
      if (used >= quota) {
        const text = `The daily quota of ${count(quota)} requests is used up: ${count(used)} requests today.`;
        return hard !== undefined && used >= hard ? { severity: 'critical', text } : text;
      }
      if (readAt - midnight < MIN_TIME || used < QUOTA_USED * quota) return [];
      const end = midnight + ((readAt - midnight) * quota) / used;
      if (end >= midnight + DAY) return [];
      const rounded = Math.floor(end / ROUNDED_TO) * ROUNDED_TO;
      const time = new Date(rounded).toISOString().slice(11, 16);
      return `At today’s average rate, the daily quota of ${count(quota)} requests ends at about ${time} UTC.`;
    },
  }),
  planCheck('account_suspended', 'DeliveryAccountChanged', {
    when: 'the management API reports a state of the account other than `active`',
    check: (_input, { read }) =>
      read?.state === undefined || read.state === 'active'
        ? []
        : `The state of the account is ${read.state}: the service may not deliver its messages.`,
  }),
  planCheck('plan_changed', 'DeliveryAccountChanged', {
    severity: 'info',
    when: 'in the last day, the plan or the state of the account changed',
    check({ now }, { read }) {
      const { change } = read ?? {};
      if (!change || now - change.at > NEWS_FOR) return [];
      return { since: change.at, text: `The account changed: ${change.text}, seen at ${clockTime(change.at, now)}.` };
    },
  }),
  planCheck('dlq_size_differs', 'DeliveryDataIncomplete', {
    severity: 'info',
    for: HOUR,
    when: 'the size of the dead-letter queue in the management API differs from the agent’s number by more than 10 messages and by more than 10 %. This is true of all sizes that the agent has recorded since 10 minutes before it read the API',
    check(input, { usage: { at, dlqMessages: reported } }) {
      if (!input.dataOf('dlq').enabled) return [];
      if (reported === undefined) return UNKNOWN;
      const points = input.recent(dlqFamilies.messages.name, ALWAYS);
      const sizes = between(points, at - COUNTED_BEFORE, input.now).map(({ value }) => value);
      if (sizes.length === 0) return UNKNOWN;
      const nearest = Math.min(Math.max(reported, Math.min(...sizes)), Math.max(...sizes));
      const difference = Math.abs(reported - nearest);
      if (difference <= Math.max(DLQ_DIFFERENCE.fewest, DLQ_DIFFERENCE.share * nearest)) return [];
      return `The management API counts ${count(reported)} dead letters, the agent ${count(nearest)}.`;
    },
  }),
];
