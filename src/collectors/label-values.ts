import { EVENT_STATES } from '../model/message.ts';
import { CALLBACK_STATES, families as dlq } from './dlq/families.ts';
import { LEFT_REASONS } from './dlq/selection.ts';
import { events } from './events/events.ts';
import { OUTCOMES, UNTRACKED } from './events/tally.ts';

/** By family and label: every value that there is. Of labels that are not listed any value may come. */
export const LABEL_VALUES: ReadonlyMap<string, Readonly<Record<string, readonly string[]>>> = new Map([
  [dlq.callbacks.name, { state: CALLBACK_STATES }],
  [dlq.left.name, { reason: LEFT_REASONS }],
  [dlq.filterLeft.name, { reason: LEFT_REASONS }],
  [events.families.recent.name, { state: EVENT_STATES }],
  [events.families.total.name, { state: EVENT_STATES }],
  [events.families.finished.name, { outcome: OUTCOMES }],
  [events.families.untracked.name, { reason: UNTRACKED }],
]);
