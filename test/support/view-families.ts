/**
 * Maps each number of an `AccountView` to a sample of the exposition. Written by hand, independently of the code that
 * builds the view.
 */
import type { ParsedFamily } from './parse-exposition.ts';

type Labels = Readonly<Record<string, string>>;

/** A sample of the exposition, or a sum of samples. */
interface Place {
  /** Path in the view: `*` matches any list item or object key. */
  readonly path: string;
  readonly name: string | ((items: readonly Item[]) => string);
  /** Labels in addition to `account`. Samples that differ only in other labels are summed. */
  readonly labels?: (items: readonly Item[], key: string) => Labels;
  /** Type in the view: a time or a boolean. Default: a number. */
  readonly as?: 'time' | 'truth';
  /** Value in the view if the sample is missing. Default: null. */
  readonly otherwise?: 0;
  /** Name of a family that exists once the data has been read. If it exists, a missing sample means 0. */
  readonly readBy?: string;
}

/** The item that a `*` of the path matched. */
type Item = Readonly<Record<string, unknown>>;

const text = (item: Item | undefined, key: string) => String(item?.[key]);
const own = (label: string, key: string) => (items: readonly Item[]) => ({ [label]: text(items.at(-1), key) });
const round = ([item]: readonly Item[]) => ({ collector: text(item, 'collector'), round: text(item, 'round') });
const otherKind = () => ({ group: '__other__' });
/** Converts `urlHost` to `url_host`. */
const snake = (name: string) => name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);
const dimension = (items: readonly Item[]) => snake(text(items[0], 'dimension'));
const perKey = own('flow_control_key', 'key');
const perSchedule = own('schedule', 'name');
const perFilter = own('filter', 'name');

const PLACES: readonly Place[] = [
  { path: 'up', name: 'delivery_up', as: 'truth' },
  { path: 'rounds.*.dataAt', name: 'delivery_collector_data_timestamp_seconds', labels: round, as: 'time' },
  { path: 'rounds.*.tookSeconds', name: 'delivery_collector_duration_seconds', labels: round },
  { path: 'rounds.*.consecutiveFailures', name: 'delivery_collector_consecutive_failures', labels: round },

  { path: 'deadLetters.messages', name: 'delivery_dlq_messages' },
  { path: 'deadLetters.most', name: 'delivery_account_limit', labels: () => ({ limit: 'dlq_size' }) },
  { path: 'deadLetters.entered', name: 'delivery_dlq_entered_total' },
  { path: 'deadLetters.left.*', name: 'delivery_dlq_left_total', labels: (_, reason) => ({ reason }) },
  { path: 'deadLetters.oldestEntered', name: 'delivery_dlq_oldest_entered_timestamp_seconds', as: 'time' },
  { path: 'deadLetters.retentionSeconds', name: 'delivery_dlq_retention_seconds' },
  { path: 'deadLetters.filters.*.messages', name: 'delivery_dlq_filter_messages', labels: perFilter },
  {
    path: 'deadLetters.filters.*.oldestEntered',
    name: 'delivery_dlq_filter_oldest_entered_timestamp_seconds',
    labels: perFilter,
    as: 'time',
  },
  { path: 'deadLetters.filters.*.entered', name: 'delivery_dlq_filter_entered_total', labels: perFilter },
  {
    path: 'deadLetters.breakdowns.*.values.*.messages',
    name: items => `delivery_dlq_messages_by_${dimension(items)}`,
    labels: items => ({ [dimension(items)]: text(items[1], 'value') }),
  },
  {
    path: 'deadLetters.breakdowns.*.beyondCap',
    name: 'delivery_series_dropped',
    labels: items => ({ family: `delivery_dlq_messages_by_${dimension(items)}` }),
    otherwise: 0,
  },
  { path: 'deadLetters.kinds.count', name: 'delivery_dlq_groups' },
  { path: 'deadLetters.kinds.appeared', name: 'delivery_dlq_groups_new_total', otherwise: 0 },
  { path: 'deadLetters.kinds.others', name: 'delivery_dlq_group_messages', labels: otherKind, otherwise: 0 },
  {
    path: 'deadLetters.kinds.largest.*.messages',
    name: 'delivery_dlq_group_messages',
    labels: ([kind]) => ({
      group: text(kind, 'id'),
      url_host: text(kind, 'urlHost'),
      response_status: text(kind, 'responseStatus'),
    }),
  },
  { path: 'deadLetters.callbacks.*', name: 'delivery_dlq_failure_callbacks', labels: (_, state) => ({ state }) },
  { path: 'deadLetters.suspected', name: 'delivery_dlq_failure_callbacks_suspected' },
  {
    path: 'deadLetters.oldestInProgress',
    name: 'delivery_dlq_failure_callback_oldest_in_progress_timestamp_seconds',
    as: 'time',
  },

  { path: 'events.recent.*', name: 'delivery_events_recent', labels: (_, state) => ({ state }) },
  {
    path: 'events.objectives.delivered',
    name: 'delivery_objective_ratio',
    labels: () => ({ objective: 'delivered' }),
  },
  { path: 'events.objectives.onTime', name: 'delivery_objective_ratio', labels: () => ({ objective: 'on_time' }) },
  { path: 'events.objectives.onTimeWithinSeconds', name: 'delivery_on_time_target_seconds' },
  { path: 'events.inFlight', name: 'delivery_messages_in_flight' },
  { path: 'events.oldestInFlight', name: 'delivery_oldest_in_flight_timestamp_seconds', as: 'time' },
  { path: 'events.newest', name: 'delivery_event_log_newest_timestamp_seconds', as: 'time' },
  ...['delivered', 'failed', 'cancelled'].map(outcome => ({
    path: `events.destinations.*.${outcome}`,
    name: 'delivery_messages_finished_total',
    labels: ([row]: readonly Item[]) => ({ destination: text(row, 'destination'), outcome }),
  })),

  { path: 'flowControl.keys', name: 'delivery_flow_control_keys' },
  {
    path: 'flowControl.waiting',
    name: 'delivery_flow_control_waitlist_size',
    readBy: 'delivery_flow_control_keys',
  },
  {
    path: 'flowControl.beyondCap',
    name: 'delivery_series_dropped',
    labels: () => ({ family: 'delivery_flow_control_waitlist_size' }),
    otherwise: 0,
  },
  {
    path: 'flowControl.beyondCapWaiting',
    name: 'delivery_flow_control_waitlist_size',
    labels: () => ({ flow_control_key: '__other__' }),
    otherwise: 0,
  },
  { path: 'flowControl.rows.*.waiting', name: 'delivery_flow_control_waitlist_size', labels: perKey },
  ...['parallelismLimit', 'parallelismInUse', 'rateLimit', 'rateUsed', 'ratePeriodSeconds'].map(field => ({
    path: `flowControl.rows.*.${field}`,
    name: `delivery_flow_control_${snake(field)}`,
    labels: perKey,
  })),
  { path: 'flowControl.rows.*.paused', name: 'delivery_flow_control_paused', labels: perKey, as: 'truth' },

  ...['lastStarted', 'lastDelivered', 'lastFailed'].map(field => ({
    path: `schedules.*.${field}`,
    name: `delivery_schedule_${snake(field)}_timestamp_seconds`,
    labels: perSchedule,
    as: 'time' as const,
  })),
  {
    path: 'schedules.*.next',
    name: 'delivery_schedule_next_expected_timestamp_seconds',
    labels: perSchedule,
    as: 'time',
  },
  { path: 'schedules.*.missed', name: 'delivery_schedule_missed_total', labels: perSchedule },
  { path: 'schedules.*.late', name: 'delivery_schedule_late_total', labels: perSchedule },

  { path: 'calls.budgetRemaining', name: 'delivery_watch_api_budget_remaining' },
  { path: 'calls.tokenRejected', name: 'delivery_token_rejected', as: 'truth' },
];

const isItem = (value: unknown): value is Item => typeof value === 'object' && value !== null;

/** A value of the view, and the name and labels of its samples. */
export interface ShownNumber {
  /** Example: `flowControl.rows.0.waiting` */
  readonly path: string;
  readonly value: unknown;
  readonly name: string;
  readonly labels: Labels;
  readonly as: 'number' | 'time' | 'truth';
  readonly otherwise: null | 0;
  readonly readBy: string | undefined;
}

function find(view: Item, place: Place): ShownNumber[] {
  const found: ShownNumber[] = [];
  function visit(value: unknown, [step, ...rest]: readonly string[], path: readonly string[], items: readonly Item[]) {
    if (step === undefined) {
      const { name, labels = () => ({}), as = 'number', otherwise = null, readBy } = place;
      found.push({
        path: path.join('.'),
        value,
        name: typeof name === 'string' ? name : name(items),
        labels: labels(items, path.at(-1) ?? ''),
        as,
        otherwise,
        readBy,
      });
    } else if (isItem(value)) {
      for (const key of step === '*' ? Object.keys(value) : [step]) {
        if (!Object.hasOwn(value, key)) throw new Error(`the view has no ${[...path, key].join('.')}`);
        const next = value[key];
        visit(next, rest, [...path, key], step === '*' && isItem(next) ? [...items, next] : items);
      }
    } else if (value !== null) throw new Error(`${path.join('.')} of the view is empty`);
  }
  visit(view, place.path.split('.'), [], []);
  return found;
}

/** Returns all numbers of the view that also occur in the exposition. */
export const shownNumbers = (view: object): ShownNumber[] => PLACES.flatMap(place => find({ ...view }, place));

/** Returns the value that the view should contain according to the exposition. */
export function exposedValue(families: readonly ParsedFamily[], account: string, number: ShownNumber): unknown {
  const { name, labels, as, otherwise, readBy } = number;
  const own = families.flatMap(({ samples }) => samples).filter(sample => sample.labels.account === account);
  const samples = own
    .filter(sample => sample.name === name)
    .filter(sample => Object.entries(labels).every(([label, value]) => sample.labels[label] === value));
  if (samples.length === 0) return own.some(({ name }) => name === readBy) ? 0 : otherwise;
  const sum = samples.reduce((sum, { value }) => sum + value, 0);
  if (as === 'truth') return sum === 1;
  return as === 'time' ? new Date(Math.round(sum * 1000)).toISOString() : sum;
}
