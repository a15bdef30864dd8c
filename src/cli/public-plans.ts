import { minimumSpan } from '../auto-cancel/options.ts';
import { rulesOf } from '../auto-cancel/tracking.ts';
import type { ShownFacts } from '../collectors/index.ts';
import type { AccountSettings, Config } from '../config/schema.ts';
import { formatDuration } from '../kit/duration.ts';
import { PUBLIC_PLANS, PUBLIC_PLANS_AS_OF } from '../upstream/options.ts';
import { toTable } from './table.ts';

type Needs = ReturnType<typeof needsOf>;

const most = (values: readonly number[]) => (values.length === 0 ? undefined : Math.max(...values));

/** Returns what the configuration of an account and its data require of a plan. Undefined values are unknown. */
export function needsOf(
  { name, collect, objectives }: AccountSettings,
  config: Config,
  { flow_control: keys, queues, schedules }: ShownFacts,
) {
  const rules = rulesOf(config, name);
  const { dlq, events } = collect;
  const limits = keys?.now?.shown.flatMap(({ parallelismLimit }) => parallelismLimit ?? []);
  return {
    dlq: dlq.enabled ? most([objectives.dlqMaxAge, ...rules.map(rule => minimumSpan(rule).ms)]) : undefined,
    events: events.enabled
      ? most([events.lateSweep, ...rules.flatMap(({ stuckWhen }) => stuckWhen.idleFor ?? [])])
      : undefined,
    global_parallelism: limits && most(limits),
    queues: queues?.now && queues.now.shown.length + queues.now.beyondCap,
    schedules: schedules?.now && schedules.now.listed.length + schedules.now.beyondCap,
  };
}

const whole = (value: number) => Math.ceil(value).toLocaleString('en-US');

/** Compares the needs of an account with the published limits of the service's plans. */
export function publicPlans(needs: Needs, callsPerDay: number): string {
  const plans = Object.values(PUBLIC_PLANS);
  type Plan = (typeof plans)[number];
  function row(
    title: string,
    need: number | undefined,
    limitOf: (plan: Plan) => number | undefined,
    format = whole,
    unit = '',
  ) {
    const cells = plans.map(plan => {
      const limit = limitOf(plan);
      if (limit === undefined) return 'unlimited';
      return need !== undefined && need > limit ? `${format(limit)} (too low)` : format(limit);
    });
    return [title, need === undefined ? 'unknown' : format(need) + unit, ...cells];
  }
  const limitRow = (title: string, limit: 'global_parallelism' | 'queues' | 'schedules') =>
    row(title, needs[limit], plan => plan.limits[limit]);
  const columns = ['needed', ...plans.map(({ title }) => title)];
  const rows = [
    row('messages a day', callsPerDay, plan => plan.limits.requests_per_day, whole, ' calls'),
    row('dead letters kept for', needs.dlq, plan => plan.retention.dlq, formatDuration),
    row('events kept for', needs.events, plan => plan.retention.events, formatDuration),
    limitRow('parallelism', 'global_parallelism'),
    limitRow('queues', 'queues'),
    limitRow('schedules', 'schedules'),
  ];
  return [
    `Public plans on ${PUBLIC_PLANS_AS_OF}; whether the service counts calls as messages is not documented:`,
    toTable(['limit', ...columns], rows, columns),
  ].join('\n');
}
