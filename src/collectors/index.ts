/** The door of this room. */
import { z } from 'zod';
import { EVENT_STATES, OUTCOMES } from '../model/message.ts';
import { accountPlan } from './account-plan.ts';
import type { CollectorKind, ConfiguredKind, Rounds } from './collector.ts';
import { dlq } from './dlq/dlq.ts';
import { CALLBACK_STATES } from './dlq/families.ts';
import { LEFT_REASONS } from './dlq/selection.ts';
import { events } from './events/events.ts';
import { UNTRACKED } from './events/tally.ts';
import { flowControl } from './flow-control.ts';

/** The table: every collector there is. A collector that is not in it does not exist. */
export const collectors: readonly ConfiguredKind[] = [flowControl, dlq, events];

/** What of the collectors is configured: the section `collect`. */
export const collectOptions = z.strictObject({
  flowControl: flowControl.options.prefault({}),
  dlq: dlq.options.prefault({}),
  events: events.options.prefault({}),
});

export type CollectOptions = z.output<typeof collectOptions>;

/** Everything whose rounds bring data of an account: the collectors, and its plan, which nothing configures. */
export const dataSources: readonly CollectorKind[] = [...collectors, accountPlan];

/** Cadences of the collectors that these sections enable, by their names. */
export function enabledRounds(collect: CollectOptions): ReadonlyMap<string, Rounds> {
  const sections: Readonly<Record<string, { readonly enabled: boolean }>> = collect;
  return new Map(
    collectors.flatMap(({ name, configKey, rounds }): [string, Rounds][] => {
      const options = sections[configKey];
      return options?.enabled ? [[name, rounds(options)]] : [];
    }),
  );
}

/** The same, and those of the plan: every value of the labels `collector` and `round` of such an account. */
export const roundsOf = (collect: CollectOptions): ReadonlyMap<string, Rounds> =>
  new Map([...enabledRounds(collect), [accountPlan.name, accountPlan.rounds]]);

/** By family and label: every value that there is. Of labels that are not listed any value may come. */
export const LABEL_VALUES: ReadonlyMap<string, Readonly<Record<string, readonly string[]>>> = new Map([
  [dlq.families.callbacks.name, { state: CALLBACK_STATES }],
  [dlq.families.left.name, { reason: LEFT_REASONS }],
  [dlq.families.filterLeft.name, { reason: LEFT_REASONS }],
  [events.families.recent.name, { state: EVENT_STATES }],
  [events.families.total.name, { state: EVENT_STATES }],
  [events.families.finished.name, { outcome: OUTCOMES }],
  [events.families.untracked.name, { reason: UNTRACKED }],
]);

export { accountPlan, createAccountPlan } from './account-plan.ts';
export { type Collector, withReader } from './collector.ts';
export { type CallbackOptions, createDlq } from './dlq/dlq.ts';
export type { DlqFacts } from './dlq/facts.ts';
export { breakdownFamilies, filterFamilies } from './dlq/families.ts';
export { createEvents } from './events/events.ts';
export { createFlowControl } from './flow-control.ts';
