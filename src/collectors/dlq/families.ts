import { counter, type Family, gauge, type Sample, type SamplesOf } from '../../metrics/family.ts';
import { OTHER, seriesDropped } from '../cap.ts';
import { optionalSample, toSeconds } from '../collector.ts';
import type { Dimension } from './aggregate.ts';
import { type DlqFacts, type SelectionFacts, shownFilters } from './facts.ts';
import { LEFT_REASONS } from './selection.ts';

const breakdownOf = (label: string, what: string): Family =>
  gauge(`delivery_dlq_messages_by_${label}`, `Messages in the dead-letter queue by ${what}.`, [label]);

/** One family for each dimension; its only label is the dimension's name in snake_case. */
export const breakdownFamilies = {
  urlHost: breakdownOf('url_host', 'destination host'),
  route: breakdownOf('route', 'destination route'),
  workflowUrl: breakdownOf('workflow_url', 'workflow URL, without its query'),
  method: breakdownOf('method', 'HTTP method'),
  state: breakdownOf('state', 'state'),
  topic: breakdownOf('topic', 'topic (URL group)'),
  queue: breakdownOf('queue', 'queue'),
  schedule: breakdownOf('schedule', 'schedule'),
  label: gauge(
    'delivery_dlq_messages_by_label',
    'Messages in the dead-letter queue by label. A message counts once for each of its labels, so the sum may exceed the number of messages.',
    ['label'],
  ),
  responseStatus: breakdownOf('response_status', 'HTTP status of the last response'),
  api: breakdownOf('api', 'API'),
  callbackState: breakdownOf('callback_state', 'state of the failure callback'),
} as const satisfies Readonly<Record<Dimension, Family>>;

export const groupFamilies = {
  groups: gauge('delivery_dlq_groups', 'Groups of messages in the dead-letter queue; at most 2,000.'),
  groupsNew: counter(
    'delivery_dlq_groups_new_total',
    'Groups of messages that a complete walk found for the first time. Groups in the first walk are not counted.',
  ),
  groupsReturned: counter(
    'delivery_dlq_groups_returned_total',
    'Groups that a complete walk found again after they had been empty for at least a day.',
  ),
  groupMessages: gauge(
    'delivery_dlq_group_messages',
    'Messages in the dead-letter queue by group: the 50 largest groups, and the sum of all others as __other__.',
    ['group', 'url_host', 'response_status'],
  ),
} as const;

export const filterFamilies = {
  filterMessages: gauge(
    'delivery_dlq_filter_messages',
    'Messages in the dead-letter queue that match the filter. Filters may overlap: do not sum them.',
    ['filter'],
  ),
  filterProven: gauge(
    'delivery_dlq_filter_proven',
    'Whether every row of the filter is readable and has all fields that its match uses (1) or not (0).',
    ['filter'],
  ),
  filterOldestEntered: gauge(
    'delivery_dlq_filter_oldest_entered_timestamp_seconds',
    'Entry time of the longest-queued message that matches the filter. Absent if no message matches.',
    ['filter'],
  ),
  filterEntered: counter(
    'delivery_dlq_filter_entered_total',
    'Messages matching the filter that were first seen after the filter’s first complete walk.',
    ['filter'],
  ),
} as const;

export const families = {
  messages: gauge('delivery_dlq_messages', 'Messages in the dead-letter queue.'),
  oldestEntered: gauge(
    'delivery_dlq_oldest_entered_timestamp_seconds',
    'Entry time of the longest-queued message in the dead-letter queue. Retention is counted from this time. Absent if the queue is empty.',
  ),
  ...breakdownFamilies,
  ...groupFamilies,
  callbacks: gauge(
    'delivery_dlq_failure_callbacks',
    'Failed workflows in the dead-letter queue by the state of their failure callback.',
    ['state'],
  ),
  /** The samples come from `status/account-metrics.ts`, which evaluates the tracked callbacks. */
  suspected: gauge(
    'delivery_dlq_failure_callbacks_suspected',
    'Failure callbacks that complete walks found in progress for longer than all their retries can take.',
    [],
  ),
  oldestInProgress: gauge(
    'delivery_dlq_failure_callback_oldest_in_progress_timestamp_seconds',
    'Time at which a walk first found the failure callback that has been in progress longest. Absent if no callback is in progress.',
    [],
  ),
  endedCallbacks: counter(
    'delivery_failure_callbacks_ended_total',
    'Failure callbacks that a complete walk found in progress and a later one found ended, by final state.',
    ['state'],
  ),
  entered: counter(
    'delivery_dlq_entered_total',
    'Messages first seen in the dead-letter queue after the first complete walk.',
  ),
  enteredByHost: counter(
    'delivery_dlq_entered_by_host_total',
    'Messages in delivery_dlq_entered_total by destination host. A host without new messages for a day may lose its series.',
    ['url_host'],
  ),
  left: counter(
    'delivery_dlq_left_total',
    'Messages that a complete walk no longer found in the dead-letter queue, by reason.',
    ['reason'],
  ),
  ...filterFamilies,
  foundByRescan: counter(
    'delivery_dlq_found_by_rescan_total',
    'Messages found only by a complete walk, although an earlier read of new entries should have listed them.',
  ),
  seriesDropped,
} as const;

function selectionSamples<L extends string>(
  selections: readonly { readonly labels: Sample<L>['labels']; readonly facts: SelectionFacts }[],
) {
  const each = (pick: (facts: SelectionFacts) => number | undefined) =>
    selections.flatMap(({ labels, facts }) => optionalSample(labels, pick(facts)));
  return {
    messages: each(({ messages }) => messages),
    oldestEntered: each(({ oldestEntered }) => toSeconds(oldestEntered)),
    proven: each(({ messages, isProven }) => (messages === undefined ? undefined : Number(isProven))),
    entered: selections.map(({ labels, facts: { entered } }) => ({ labels, value: entered })),
  };
}

function kindSamples({ count, largest, others, appeared, returned }: DlqFacts['kinds']) {
  const rest = { group: OTHER, url_host: OTHER, response_status: OTHER };
  return {
    groups: optionalSample({}, count),
    groupsNew: [{ labels: {}, value: appeared }],
    groupsReturned: [{ labels: {}, value: returned }],
    groupMessages: [
      ...largest.map(({ id, urlHost, responseStatus, messages }) => ({
        labels: { group: id, url_host: urlHost, response_status: responseStatus },
        value: messages,
      })),
      ...(others > 0 ? [{ labels: rest, value: others }] : []),
    ],
  };
}

export function samples({
  selections,
  breakdowns,
  beyondCap,
  kinds,
  callbacks,
  foundByRescan,
  oldestInProgress,
  endedCallbacks,
  enteredByHost,
}: DlqFacts): SamplesOf<typeof families> {
  const facts = selections.get('all');
  const { proven: _, ...queue } = selectionSamples(facts ? [{ labels: {}, facts }] : []);
  const filters = selectionSamples(
    [...shownFilters(selections)].map(([filter, facts]) => ({ labels: { filter }, facts })),
  );
  return {
    ...queue,
    left: facts ? LEFT_REASONS.map(reason => ({ labels: { reason }, value: facts.left[reason] })) : [],
    filterMessages: filters.messages,
    filterProven: filters.proven,
    filterOldestEntered: filters.oldestEntered,
    filterEntered: filters.entered,
    ...Object.fromEntries(
      [...breakdowns].map(([dimension, counts]) => {
        const [label = ''] = breakdownFamilies[dimension].labels;
        return [dimension, [...counts].map(([value, count]) => ({ labels: { [label]: value }, value: count }))];
      }),
    ),
    ...kindSamples(kinds),
    enteredByHost: [...(enteredByHost?.counts ?? [])].map(([host, value]) => ({ labels: { url_host: host }, value })),
    callbacks: Object.entries(callbacks ?? {}).map(([state, value]) => ({ labels: { state }, value })),
    oldestInProgress: optionalSample({}, toSeconds(oldestInProgress)),
    endedCallbacks: Object.entries(endedCallbacks).map(([state, value]) => ({ labels: { state }, value })),
    foundByRescan: [{ labels: {}, value: foundByRescan }],
    seriesDropped: [
      ...[...beyondCap].map(([dimension, value]) => ({
        labels: { family: breakdownFamilies[dimension].name },
        value,
      })),
      ...optionalSample({ family: families.enteredByHost.name }, enteredByHost?.beyondCap),
      ...(kinds.count === undefined
        ? []
        : [{ labels: { family: groupFamilies.groupMessages.name }, value: kinds.count - kinds.largest.length }]),
    ],
  };
}
