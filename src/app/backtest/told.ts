import type { AlertCondition, Selector } from '../../alerts/options.ts';
import { selectorsOf } from '../../alerts/options.ts';
import { dlq } from '../../collectors/dlq/dlq.ts';
import { events } from '../../collectors/events/events.ts';
import { dataSources } from '../../collectors/index.ts';
import { objectiveFamilies } from '../../metrics/objectives.ts';

/**
 * What is known of a metric's past. `exactly`: the event log tells it. `at_least`: entries that are still listed prove that it was
 * this much, or this old, and nothing proves that it was not. Else why nothing is known.
 */
export type Told = 'exactly' | 'at_least' | { readonly unknown: string };

const { families: ofEvents } = events;
const { families: ofDlq } = dlq;

/** Of the event log, what it did to its reader, or what only a reader knows. */
const READING = new Map(
  [ofEvents.late, ofEvents.duplicates, ofEvents.gaps, ofEvents.newest].map(({ name }) => [
    name,
    'the log does not say when it listed an event, nor what it once left out',
  ]),
);
const PROVEN: ReadonlyMap<string, AlertCondition['kind']> = new Map([
  [ofDlq.messages.name, 'above'],
  [ofDlq.filterMessages.name, 'above'],
  [ofDlq.oldest.name, 'age'],
  [ofDlq.filterOldest.name, 'age'],
  [ofDlq.oldestEntered.name, 'age'],
  [ofDlq.filterOldestEntered.name, 'age'],
]);

const namesOf = (collector: string) =>
  new Set(
    dataSources
      .filter(({ name }) => name === collector)
      .flatMap(({ families }) => Object.values(families).map(({ name }) => name)),
  );
const EVENT_NAMES = namesOf(events.name);
const DLQ_NAMES = namesOf(dlq.name);
const FLOW_CONTROL_NAMES = namesOf('flow_control');
const PLAN_NAMES = namesOf('account');
const OBJECTIVE_NAMES = new Set(Object.values(objectiveFamilies).map(({ name }) => name));

function ofMetric({ metric }: Selector, kind: AlertCondition['kind']): Told {
  const reading = READING.get(metric);
  if (reading !== undefined) return { unknown: reading };
  if (OBJECTIVE_NAMES.has(metric)) return 'exactly';
  if (metric === ofEvents.since.name || metric === ofEvents.seriesDropped.name) {
    return { unknown: 'it is about the agent, which did not run' };
  }
  if (EVENT_NAMES.has(metric)) return 'exactly';
  if (PROVEN.get(metric) === kind) return 'at_least';
  if (metric === ofDlq.callbacks.name || /failure_callback/.test(metric)) {
    return { unknown: 'nothing lists the past states of failure callbacks' };
  }
  if (DLQ_NAMES.has(metric)) return { unknown: 'entries that have left the dead-letter queue leave no trace' };
  if (FLOW_CONTROL_NAMES.has(metric)) return { unknown: 'no log holds what flow control was' };
  if (PLAN_NAMES.has(metric)) return { unknown: 'no log holds the limits of the account’s plan' };
  return { unknown: 'it is about the agent, which did not run' };
}

/** How far the past can be judged by a condition. */
export function toldOf(condition: AlertCondition): Told {
  if (condition.kind === 'stale') return { unknown: 'it is about the agent, which did not run' };
  const all = selectorsOf(condition).map(selector => ofMetric(selector, condition.kind));
  return all.find(told => typeof told === 'object') ?? (all.includes('at_least') ? 'at_least' : 'exactly');
}
