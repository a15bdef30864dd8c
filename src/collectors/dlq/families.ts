import { recordOf } from '../../kit/record.ts';
import type { Sample } from '../../metrics/family.ts';
import { type CallbackFacts, isSuspected } from '../../model/callback.ts';
import { CALLBACK_ENDS, CALLBACK_STATES, type CallbackEnd, type CallbackState } from '../../model/message.ts';
import { largestOf, OTHER, seriesDropped } from '../cap.ts';
import { type FactFamily, familiesOf, optionalSample, toSeconds } from '../collector.ts';
import type { Dimension } from './aggregate.ts';
import type { DeadLetter } from './ends.ts';
import type { DeadLetterKind } from './kinds.ts';
import type { DlqMemory } from './memory.ts';
import { LEFT_REASONS, type LeftReason, type Selection, sizeOf } from './selection.ts';

/** Times are in milliseconds since the Unix epoch. */
export interface SelectionFacts extends Readonly<Pick<Selection, 'key' | 'entered' | 'isProven' | 'isContradicted'>> {
  readonly messages: number | undefined;
  readonly oldestEntered: number | undefined;
  readonly left: Readonly<Record<LeftReason, number>>;
}

export interface DlqFacts {
  readonly selections: ReadonlyMap<string, SelectionFacts>;
  readonly breakdowns: ReadonlyMap<Dimension, ReadonlyMap<string, number>>;
  readonly beyondCap: ReadonlyMap<Dimension, number>;
  readonly callbacks: Readonly<Record<CallbackState, number>> | undefined;
  readonly kinds: Readonly<ReturnType<typeof kindFacts>>;
  /** Newest entries, the latest first. Empty before the first complete walk of this process. */
  readonly newest: readonly DeadLetter[];
  readonly longest: readonly DeadLetter[];
  readonly foundByRescan: number;
  /** Entries counted as new by host, and the number of hosts beyond the cap. Undefined without the breakdown by host. */
  readonly enteredByHost: { readonly counts: ReadonlyMap<string, number>; readonly beyondCap: number } | undefined;
  readonly tracked: CallbackFacts | undefined;
  /** Number of callbacks in progress for longer than their retries can take; undefined if no states are reported. */
  readonly suspected: number | undefined;
  readonly endedCallbacks: Readonly<Record<CallbackEnd, number>>;
  /** First sighting of the callback that has been in progress longest (ms since the Unix epoch), if any. */
  readonly oldestInProgress: number | undefined;
}

/** Returns the named filters, except those contradicted by their rows. */
export const shownFilters = (selections: DlqFacts['selections']): ReadonlyMap<string, SelectionFacts> =>
  new Map([...selections].filter(([name, { isContradicted }]) => name !== 'all' && !isContradicted));

function oldestInProgress(tracked: CallbackFacts | undefined): number | undefined {
  const inProgress = tracked?.sightings.filter(({ entry }) => entry.callbackState === 'in_progress') ?? [];
  return inProgress.length === 0 ? undefined : Math.min(...inProgress.map(({ firstSeenAt }) => firstSeenAt));
}

function factsOf(selection: Selection): SelectionFacts {
  const { key, shown, entered, left, isProven, isContradicted } = selection;
  return {
    key,
    isProven,
    isContradicted,
    messages: shown && sizeOf(selection),
    oldestEntered: shown?.oldestEntered,
    entered,
    left: { ...left },
  };
}

/** Returns the counts of a dimension's shown values, and the sum of the others as `OTHER`. */
function cut(counts: ReadonlyMap<string, number>, shown: ReadonlySet<string>): Map<string, number> {
  const kept = new Map([...counts].filter(([value]) => shown.has(value)));
  let others = 0;
  for (const [value, count] of counts) if (!shown.has(value)) others += count;
  return others > 0 ? kept.set(OTHER, others) : kept;
}

/** Maximum number of kinds with a series, and maximum number in each sample of the history. The largest kinds are kept. */
export const MAX_KINDS_SHOWN = 50;

/** Returns the kinds. `count`: undefined before the first complete walk of this process. */
function kindFacts({ all, kinds }: DlqMemory) {
  const found = all.shown?.kinds;
  const each = [...(found?.byKey.values() ?? [])].sort((a, b) => b.messages - a.messages || (a.id < b.id ? -1 : 1));
  return {
    count: found && each.length,
    largest: each.slice(0, MAX_KINDS_SHOWN).map((kind): Readonly<DeadLetterKind> => ({ ...kind })),
    others: each.slice(MAX_KINDS_SHOWN).reduce((sum, { messages }) => sum + messages, found?.ungrouped ?? 0),
    appeared: kinds.appeared(),
  };
}

/** `maxValues`: maximum number of shown values of a breakdown. */
export function toFacts(memory: DlqMemory, maxValues: number): DlqFacts {
  const { all, filters, foundByRescan } = memory;
  const values = [...(all.shown?.values ?? [])].map(([dimension, counts]) => {
    // A value named `__other__` is merged into the remainder, because the two would be indistinguishable.
    const sizes = [...counts].filter(([value]) => value !== OTHER);
    return [dimension, counts, largestOf(sizes, maxValues)] as const;
  });
  const counts = all.shown?.callbacks;
  const hosts = all.breakdown.dimensions.includes('urlHost') ? all.hosts : undefined;
  const tracked = memory.callbacks.facts();
  return {
    selections: new Map([all, ...filters].map(selection => [selection.name, factsOf(selection)])),
    breakdowns: new Map(values.map(([dimension, counts, shown]) => [dimension, cut(counts, shown)])),
    beyondCap: new Map(values.map(([dimension, counts, shown]) => [dimension, Math.max(0, counts.size - shown.size)])),
    callbacks: counts && counts.size > 0 ? recordOf(CALLBACK_STATES, state => counts.get(state) ?? 0) : undefined,
    kinds: kindFacts(memory),
    newest: all.shown?.ends?.newest() ?? [],
    longest: all.shown?.ends?.longest() ?? [],
    foundByRescan,
    enteredByHost: hosts && { counts: hosts.counts(), beyondCap: hosts.beyond() },
    tracked,
    suspected: tracked?.reportsStates ? tracked.sightings.filter(isSuspected).length : undefined,
    endedCallbacks: memory.callbacks.ended(),
    oldestInProgress: oldestInProgress(tracked),
  };
}

const { gauge, counter } = familiesOf<DlqFacts>();

const wholeQueue = ({ selections }: DlqFacts) => selections.get('all');

const perFilter = ({ selections }: DlqFacts, numberOf: (facts: SelectionFacts) => number | undefined) =>
  [...shownFilters(selections)].flatMap(([filter, facts]) => optionalSample({ filter }, numberOf(facts)));

const perState = (counts: Readonly<Record<string, number>> = {}): Sample<'state'>[] =>
  Object.entries(counts).map(([state, value]) => ({ labels: { state }, value }));

/** A breakdown's only label is the name of its dimension in snake_case. */
const breakdownOf = (dimension: Dimension, label: string, what: string): FactFamily<DlqFacts> =>
  gauge({
    name: `delivery_dlq_messages_by_${label}`,
    help: `Dead letters by ${what}.`,
    labels: [label],
    pick: ({ breakdowns }) =>
      [...(breakdowns.get(dimension) ?? [])].map(([value, count]) => ({ labels: { [label]: value }, value: count })),
  });

export const breakdownFamilies = {
  urlHost: breakdownOf('urlHost', 'url_host', 'destination host'),
  route: breakdownOf('route', 'route', 'destination route'),
  workflowUrl: breakdownOf('workflowUrl', 'workflow_url', 'workflow URL (without the query string)'),
  method: breakdownOf('method', 'method', 'HTTP method'),
  state: breakdownOf('state', 'state', 'state of the message'),
  topic: breakdownOf('topic', 'topic', 'topic (URL group)'),
  queue: breakdownOf('queue', 'queue', 'queue of the message'),
  schedule: breakdownOf('schedule', 'schedule', 'schedule'),
  label: breakdownOf(
    'label',
    'label',
    'label. A message with several labels counts once for each of them, so the sum may be too high',
  ),
  responseStatus: breakdownOf('responseStatus', 'response_status', 'HTTP status of the last response'),
  api: breakdownOf('api', 'api', 'API'),
  callbackState: breakdownOf('callbackState', 'callback_state', 'state of the failure callback'),
} as const satisfies Readonly<Record<Dimension, FactFamily<DlqFacts>>>;

const groupMessages = gauge({
  name: 'delivery_dlq_group_messages',
  help: `Dead letters by kind (label group): the ${MAX_KINDS_SHOWN} largest kinds, and the sum of all others as __other__.`,
  labels: ['group', 'url_host', 'response_status'],
  pick: ({ kinds: { largest, others } }) => [
    ...largest.map(({ id, urlHost, responseStatus, messages }) => ({
      labels: { group: id, url_host: urlHost, response_status: responseStatus },
      value: messages,
    })),
    ...(others > 0 ? [{ labels: { group: OTHER, url_host: OTHER, response_status: OTHER }, value: others }] : []),
  ],
});

export const filterFamilies = {
  filterMessages: gauge({
    name: 'delivery_dlq_filter_messages',
    help: 'Dead letters that match the filter. Filters may overlap, so do not add up their values.',
    labels: ['filter'],
    pick: facts => perFilter(facts, ({ messages }) => messages),
  }),
  filterProven: gauge({
    name: 'delivery_dlq_filter_proven',
    help: 'Whether all rows that the service lists for the filter are readable and have the fields that the filter uses (1) or not (0).',
    labels: ['filter'],
    pick: facts =>
      perFilter(facts, ({ messages, isProven }) => (messages === undefined ? undefined : Number(isProven))),
  }),
  filterOldestEntered: gauge({
    name: 'delivery_dlq_filter_oldest_entered_timestamp_seconds',
    help: 'Entry time of the longest-queued message that matches the filter. Absent if no message matches.',
    labels: ['filter'],
    pick: facts => perFilter(facts, ({ oldestEntered }) => toSeconds(oldestEntered)),
  }),
  filterEntered: counter({
    name: 'delivery_dlq_filter_entered_total',
    help: 'Messages of the filter that entered the dead-letter queue, except those in the filter’s first complete walk.',
    labels: ['filter'],
    pick: facts => perFilter(facts, ({ entered }) => entered),
  }),
} as const;

const enteredByHost = counter({
  name: 'delivery_dlq_entered_by_host_total',
  help: 'Messages that entered the dead-letter queue, by destination host. A host without new messages for a day may lose its series.',
  labels: ['url_host'],
  pick: facts =>
    [...(facts.enteredByHost?.counts ?? [])].map(([host, value]) => ({ labels: { url_host: host }, value })),
});

export const dlqFamilies = {
  messages: gauge({
    name: 'delivery_dlq_messages',
    help: 'Messages in the dead-letter queue.',
    pick: facts => wholeQueue(facts)?.messages,
  }),
  oldestEntered: gauge({
    name: 'delivery_dlq_oldest_entered_timestamp_seconds',
    help: 'Entry time of the longest-queued dead letter. Its retention starts at this time. Absent if the queue is empty.',
    pick: facts => toSeconds(wholeQueue(facts)?.oldestEntered),
  }),
  ...breakdownFamilies,
  groups: gauge({
    name: 'delivery_dlq_groups',
    help: 'Kinds of dead letters (label group of delivery_dlq_group_messages), at most 2,000.',
    pick: ({ kinds }) => kinds.count,
  }),
  groupsNew: counter({
    name: 'delivery_dlq_groups_new_total',
    help: 'Kinds of dead letters that a complete walk found for the first time, except those in the very first walk.',
    pick: ({ kinds }) => kinds.appeared,
  }),
  groupMessages,
  callbacks: gauge({
    name: 'delivery_dlq_failure_callbacks',
    help: 'Failed workflows in the dead-letter queue by the state of their failure callback.',
    labels: ['state'],
    values: { state: CALLBACK_STATES },
    pick: ({ callbacks }) => perState(callbacks),
  }),
  suspected: gauge({
    name: 'delivery_dlq_failure_callbacks_suspected',
    help: 'Failure callbacks that seem stuck: complete walks have found them in progress for longer than all their retries can take.',
    pick: ({ suspected }) => suspected,
  }),
  oldestInProgress: gauge({
    name: 'delivery_dlq_failure_callback_oldest_in_progress_timestamp_seconds',
    help: 'Time when a walk first found that the longest-running failure callback was in progress. Absent if no failure callback is in progress.',
    pick: ({ oldestInProgress }) => toSeconds(oldestInProgress),
  }),
  endedCallbacks: counter({
    name: 'delivery_failure_callbacks_ended_total',
    help: 'Failure callbacks that ended after a complete walk had found them in progress, by final state.',
    labels: ['state'],
    values: { state: CALLBACK_ENDS },
    pick: ({ endedCallbacks }) => perState(endedCallbacks),
  }),
  entered: counter({
    name: 'delivery_dlq_entered_total',
    help: 'Messages that entered the dead-letter queue, except those in the first complete walk.',
    pick: facts => wholeQueue(facts)?.entered,
  }),
  enteredByHost,
  left: counter({
    name: 'delivery_dlq_left_total',
    help: 'Messages that left the dead-letter queue, by reason. A message is counted when a complete walk no longer finds it.',
    labels: ['reason'],
    values: { reason: LEFT_REASONS },
    pick(facts) {
      const left = wholeQueue(facts)?.left;
      return left && LEFT_REASONS.map(reason => ({ labels: { reason }, value: left[reason] }));
    },
  }),
  ...filterFamilies,
  foundByRescan: counter({
    name: 'delivery_dlq_found_by_rescan_total',
    help: 'Messages that only a complete walk found, although an earlier read of new entries should have listed them.',
    pick: ({ foundByRescan }) => foundByRescan,
  }),
  seriesDropped: gauge({
    ...seriesDropped,
    pick: ({ beyondCap, enteredByHost: byHost, kinds: { count, largest } }) => [
      ...[...beyondCap].map(([dimension, value]) => ({
        labels: { family: breakdownFamilies[dimension].name },
        value,
      })),
      ...optionalSample({ family: enteredByHost.name }, byHost?.beyondCap),
      ...optionalSample({ family: groupMessages.name }, count === undefined ? undefined : count - largest.length),
    ],
  }),
} as const;
