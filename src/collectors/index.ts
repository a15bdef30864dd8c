import { account } from './account.ts';
import type { Collector } from './collector.ts';
import { dlq } from './dlq/dlq.ts';
import { events } from './events/events.ts';
import { flowControl } from './flow-control.ts';

/** The door of this room: every collector there is. A collector that is not in this table does not exist. */
export const collectors: readonly Collector[] = [flowControl, dlq, events, account];

export type { AccountFacts } from './account.ts';
export type { Cadence, Collector } from './collector.ts';
export type { CallbackOptions } from './dlq/dlq.ts';
export type { DlqFacts } from './dlq/facts.ts';
export { breakdownFamilies, filterFamilies } from './dlq/families.ts';
export { LABEL_VALUES } from './label-values.ts';
