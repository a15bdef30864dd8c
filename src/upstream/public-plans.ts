import { DAY } from '../kit/duration.ts';
import type { AccountLimit } from '../model/account.ts';

/** Source of the limits below: the page https://upstash.com/pricing/qstash as published in the repository upstash/upstash-web on this day. */
export const PUBLIC_PLANS_AS_OF = '2026-08-21';

export const PLAN_NAMES = ['free', 'pay_as_you_go', 'fixed_1m', 'fixed_10m'] as const;
type PlanName = (typeof PLAN_NAMES)[number];

interface PublicPlan {
  readonly title: string;
  /** An absent limit is unlimited. `requests_per_day` counts messages. */
  readonly limits: Readonly<Partial<Record<AccountLimit, number>>>;
  /** Times (ms). */
  readonly retention: { readonly dlq: number; readonly events: number };
}

/** Published limits of the service's plans. Those of enterprise plans are individual. */
export const PUBLIC_PLANS: Readonly<Record<PlanName, PublicPlan>> = {
  free: {
    title: 'free',
    limits: { requests_per_day: 1000, global_parallelism: 10, queues: 10, schedules: 10, topics: 1 },
    retention: { dlq: 3 * DAY, events: 3 * DAY },
  },
  pay_as_you_go: {
    title: 'pay as you go',
    limits: { global_parallelism: 100, queues: 100, schedules: 1000, topics: 100 },
    retention: { dlq: 7 * DAY, events: 7 * DAY },
  },
  fixed_1m: {
    title: 'fixed 1M',
    limits: {
      requests_per_day: 1_000_000,
      global_parallelism: 200,
      queues: 1000,
      schedules: 10_000,
      topics: 1000,
    },
    retention: { dlq: 30 * DAY, events: 14 * DAY },
  },
  fixed_10m: {
    title: 'fixed 10M',
    limits: {
      requests_per_day: 10_000_000,
      global_parallelism: 1000,
      queues: 1000,
      schedules: 50_000,
      topics: 2000,
    },
    retention: { dlq: 90 * DAY, events: 14 * DAY },
  },
};
