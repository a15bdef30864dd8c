import { z } from 'zod';
import type { Visible } from '../scheduler/board.ts';
import type { Reader } from '../upstream/api.ts';
import { accountPlan, type PlanFacts, usageOptions } from './account-plan.ts';
import type { Collector, CollectorKind, ConfiguredKind, Rounds } from './collector.ts';
import { type DlqServices, dlq } from './dlq/dlq.ts';
import type { DlqFacts } from './dlq/families.ts';
import { type EventsServices, events } from './events/events.ts';
import type { EventsFacts } from './events/families.ts';
import type { FlowControlFacts } from './flow-control/families.ts';
import { type FlowControlServices, flowControl } from './flow-control/flow-control.ts';
import { type QueuesFacts, queues } from './queues/queues.ts';
import { createRoutes, routesOption } from './routes.ts';
import { type RunsFacts, type RunsServices, runs } from './runs/runs.ts';
import { type ScheduleListFacts, type SchedulesServices, scheduleList } from './schedules/schedules.ts';

export const collectors: readonly ConfiguredKind[] = [flowControl, dlq, events, scheduleList, queues, runs];

const familiesOptions = z.strictObject({
  exclude: z
    .array(z.string().min(1).max(200))
    .max(1000)
    .default([])
    .describe('Metric families that are not exposed. `*` matches any characters. `delivery_up` cannot be excluded.'),
});

export const collectOptions = z.strictObject({
  flowControl: flowControl.options.prefault({}),
  dlq: dlq.options.prefault({}),
  events: events.options.prefault({}),
  queues: queues.options.prefault({}),
  account: usageOptions.prefault({}),
  schedules: scheduleList.options.prefault({}),
  runs: runs.options.prefault({}),
  routes: routesOption,
  families: familiesOptions.prefault({}),
});

export type CollectOptions = z.output<typeof collectOptions>;

export interface ShownFacts {
  readonly dlq?: Visible<DlqFacts>;
  readonly events?: Visible<EventsFacts>;
  readonly flow_control?: Visible<FlowControlFacts>;
  readonly schedules?: Visible<ScheduleListFacts>;
  readonly queues?: Visible<QueuesFacts>;
  readonly runs?: Visible<RunsFacts>;
  readonly account?: Visible<PlanFacts>;
}

/** All sources of account data: the collectors, and the account's plan, which has no configuration section. */
export const dataSources: readonly CollectorKind[] = [...collectors, accountPlan];

function enabledKinds(collect: CollectOptions) {
  const sections: Readonly<Record<string, object>> = collect;
  return collectors.flatMap(kind => {
    const options = sections[kind.configKey] as { readonly enabled: boolean | 'auto' } | undefined;
    return options?.enabled ? [{ kind, options }] : [];
  });
}

/** Returns the name of a collector in texts for users. */
export const collectorTitle = (collector: string): string =>
  dataSources.find(({ name }) => name === collector)?.title ?? collector;

type Services = Omit<DlqServices & EventsServices & FlowControlServices & SchedulesServices & RunsServices, 'routes'>;

export function createCollectors(collect: CollectOptions, services: Services): Collector[] {
  const all = { ...services, routes: createRoutes(collect.routes) };
  return enabledKinds(collect).map(({ kind, options }) => kind.create(options, all));
}

/** Whether a collector's gauges are withdrawn if this round keeps failing. */
export const isDeciding = (collector: string, round: string): boolean =>
  !dataSources.find(({ name }) => name === collector)?.auxiliary?.includes(round);

/** Whether a service may lack the data of a collector. Such data does not affect the health of the account. */
export const isOptional = (collector: string): boolean =>
  dataSources.find(({ name }) => name === collector)?.isOptional ?? false;

/** Whether an enabled collector reads data that every service has. */
export const isAnyEnabled = (collect: CollectOptions): boolean =>
  enabledKinds(collect).some(({ kind }) => !kind.isOptional);

/** Reads a small part of an enabled list. */
export function readAny({ events, dlq }: CollectOptions, now: number, api: Reader, signal: AbortSignal) {
  if (events.enabled) return api.eventPages({ fromDate: now }, signal).next();
  return dlq.enabled ? api.dlqPages({}, signal).next() : api.flowControl(signal, () => {});
}

export const enabledRounds = (collect: CollectOptions): ReadonlyMap<string, Rounds> =>
  new Map(enabledKinds(collect).map(({ kind, options }) => [kind.name, kind.rounds(options)]));

/** Returns the rounds of the enabled collectors and of the plan: all values of the labels `collector` and `round`. */
export const accountRounds = (collect: CollectOptions): ReadonlyMap<string, Rounds> =>
  new Map([...enabledRounds(collect), [accountPlan.name, accountPlan.rounds(collect.account)]]);

/** Possible values of every label that has a fixed set of values, by family and label. */
export const LABEL_VALUES: ReadonlyMap<string, Readonly<Record<string, readonly string[] | undefined>>> = new Map(
  dataSources.flatMap(({ families }) => Object.values(families).map(({ name, values = {} }) => [name, values])),
);

export { accountPlan, createAccountPlan, type PlanFacts, planOf, retentionOf } from './account-plan.ts';
export { OTHER } from './cap.ts';
export { type Collector, withReader } from './collector.ts';
export type { CallbackTracking } from './dlq/callback-tracker.ts';
export type { DeadLetter } from './dlq/ends.ts';
export {
  breakdownFamilies,
  type DlqFacts,
  dlqFamilies,
  filterFamilies,
  MAX_KINDS_SHOWN,
  type SelectionFacts,
  shownFilters,
} from './dlq/families.ts';
export { type EventsFacts, eventFamilies, eventTotals } from './events/families.ts';
export { type Schedule, schedulesOf, schedulesOptions } from './events/schedule-options.ts';
export type { ScheduleFacts } from './events/schedules.ts';
export { type FlowControlFacts, flowControlFamilies, type TrackedKey } from './flow-control/families.ts';
export type { KeyLimits, LimitChange } from './flow-control/limits.ts';
export type { QueuesFacts } from './queues/queues.ts';
export type { RunsFacts } from './runs/runs.ts';
export { hasFailed, isMissing, type ListedSchedule, type ScheduleListFacts } from './schedules/schedules.ts';
