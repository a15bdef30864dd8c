import { account } from './account.ts';
import type { Collector } from './collector.ts';
import { dlq } from './dlq.ts';
import { events } from './events.ts';
import { flowControl } from './flow-control.ts';

/** The door of this room: every collector there is. A collector that is not in this table does not exist. */
export const collectors: readonly Collector[] = [flowControl, dlq, events, account];

export type { AccountFacts } from './account.ts';
export type { Cadence, Collector } from './collector.ts';
export type { DlqFacts } from './dead-letters/facts.ts';
export type { CallbackOptions } from './dlq.ts';
export { LABEL_VALUES } from './label-values.ts';
