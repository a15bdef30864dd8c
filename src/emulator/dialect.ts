interface Choice<V extends string = string> {
  readonly help: string;
  /** The first value is the default. */
  readonly values: readonly [V, ...V[]];
}

interface Amount {
  readonly help: string;
  readonly min: number;
  readonly max: number;
  readonly initial: number;
}

const choice = <const V extends string>(help: string, ...values: [V, ...V[]]): Choice<V> => ({ help, values });
const amount = (help: string, initial: number, min: number, max: number): Amount => ({ help, initial, min, max });

const filtering = (parameter: string) =>
  choice(`how the lists apply the parameter ${parameter}`, 'exact', 'ignored', 'any-case', 'prefix');
const dateFiltering = (parameter: string) =>
  choice(`how the lists apply the parameter ${parameter}`, 'exact', 'ignored');

const DAY_MS = 86_400_000;
/** Maximum delay of events (ms), equal to their retention: a longer delay would hide them forever. */
const MAX_DELAY_MS = 6 * 3_600_000;

/** Variants of the service's API. Defaults follow the interface document or, if it is silent, official clients. */
export const dialectOptions = {
  flowControlList: choice('flow-control list: inside an object, or bare', 'object', 'array'),
  flowControlListSize: choice('name of the size in the flow-control list', 'waitListSize', 'waitlistSize'),
  flowControlKeySize: choice('name of the size in a single flow-control key', 'waitlistSize', 'waitListSize'),
  flowControlFields: choice('fields of a flow-control key: only the size, or all newer ones', 'documented', 'all'),
  flowControlZeros: choice('fields of a flow-control key that are 0 or false', 'present', 'omitted'),
  idleKey: choice('response for an idle flow-control key', 'found', 'missing'),
  eventPaths: choice('event log paths that exist; the other returns 404', 'both', 'events', 'logs'),
  eventsList: choice('name of the list in the response of /v2/events', 'events', 'logs'),
  logsList: choice('name of the list in the response of /v2/logs', 'logs', 'events'),
  eventTime: choice('times of events', 'text', 'number'),
  eventState: choice('states of events', 'lower', 'upper'),
  eventCancelled: choice('spelling of the state of a cancelled message', 'cancelled', 'canceled'),
  lastCursor: choice('cursor of the last page', 'absent', 'empty'),
  highCount: choice('response to a count above the maximum', 'lowered', 'refused'),
  order: choice('whether the lists obey the parameter order', 'obeyed', 'ignored'),
  dlqWorkflows: choice('whether /v2/dlq lists failed workflow runs without being asked', 'included', 'separate'),
  callbackState: choice(
    'field with the state of an entry’s failure callback; absent: no field',
    'failureCallbackInfo',
    'failureFunctionState',
    'both',
    'absent',
  ),
  cancelAnswer: choice(
    'status of a cancelled failure callback; Location is another dead letter, the request itself or a dead letter on another host; 400 cancels nothing',
    '302',
    '302-location',
    '302-self',
    '302-foreign',
    '200',
    '202',
    '204',
    '400',
  ),
  cancelTakesMs: amount('emulated milliseconds until a cancelled callback is reported as such', 0, 0, DAY_MS),
  requestsPerSecond: amount('requests per second of an account; more get 429', 100_000, 1, 1_000_000),
  burstReset: choice('unit of Burst-RateLimit-Reset', 'seconds', 'milliseconds'),
  retryAfter: choice('Retry-After header of a 429', 'absent', 'present'),
  readOnlyWrite: choice('status of a write with the read-only token', '403', '401'),
  logLagMs: amount('delay until an event is listed, in emulated milliseconds', 0, 0, DAY_MS),
  logLateShare: amount(
    'share of events with an additional delay, listed between events that were already listed',
    0,
    0,
    1,
  ),
  logLateMs: amount('maximum additional delay, in emulated milliseconds', 0, 0, MAX_DELAY_MS),
  logDuplicates: amount('share of events that are listed twice in the same list', 0, 0, 1),
  cursorSeam: choice(
    'whether each further page of events starts after the last row of the previous page or repeats it',
    'exact',
    'repeats',
  ),
  eventsMost: choice('rows per page of events: default and maximum', '1000', '100'),
  messageIdFilter: filtering('messageId'),
  urlFilter: filtering('url'),
  topicNameFilter: filtering('topicName'),
  scheduleIdFilter: filtering('scheduleId'),
  queueNameFilter: filtering('queueName'),
  apiFilter: filtering('api'),
  fromDateFilter: dateFiltering('fromDate'),
  toDateFilter: dateFiltering('toDate'),
  responseStatusFilter: filtering('responseStatus'),
  callerIpFilter: filtering('callerIp'),
  labelFilter: filtering('label'),
  stateFilter: filtering('state'),
  serviceLists: choice(
    'whether the service has schedules, queues, global parallelism and workflow runs; absent: 404',
    'present',
    'absent',
  ),
  serviceFields: choice('fields of schedules, queues and runs: all, or only the required ones', 'all', 'required'),
  runsFilter: choice(
    'whether the filter of runs by state applies to the list, or to each page, which may leave it empty',
    'list',
    'page',
  ),
  createdDue: choice(
    'field of a CREATED event with the due time of a delayed message',
    'absent',
    'nextDeliveryTime',
    'notBefore',
  ),
} as const satisfies Readonly<Record<string, Choice | Amount>>;

type Options = typeof dialectOptions;

/** Current variant of the API. May change while the emulator runs. */
export type Dialect = {
  -readonly [K in keyof Options]: Options[K] extends Choice<infer V> ? V : number;
};

function fault(name: string, value: unknown): string | undefined {
  const option: Choice | Amount | undefined = Object.hasOwn(dialectOptions, name)
    ? dialectOptions[name as keyof Options]
    : undefined;
  if (!option) return `there is no option "${name}"; there are: ${Object.keys(dialectOptions).join(', ')}`;
  if ('values' in option) {
    return option.values.includes(value as string) ? undefined : `${name} must be one of ${option.values.join(', ')}`;
  }
  const { min, max } = option;
  const isIn = typeof value === 'number' && value >= min && value <= max;
  return isIn ? undefined : `${name} must be a number from ${min} to ${max}`;
}

function check(changes: Readonly<Record<string, unknown>>): asserts changes is Partial<Dialect> {
  for (const [name, value] of Object.entries(changes)) {
    const wrong = fault(name, value);
    if (wrong) throw new RangeError(wrong);
  }
}

/** Returns the defaults with `changes`. Throws a RangeError if a change is invalid. */
export function dialectWith(changes: Readonly<Record<string, unknown>>): Dialect {
  check(changes);
  const defaults = Object.entries<Choice | Amount>(dialectOptions).map(([name, option]) => [
    name,
    'values' in option ? option.values[0] : option.initial,
  ]);
  return { ...Object.fromEntries(defaults), ...changes };
}

/** Applies all changes. If one is invalid, throws a RangeError and applies none. */
export function changeDialect(dialect: Dialect, changes: unknown): void {
  if (typeof changes !== 'object' || changes === null || Array.isArray(changes)) {
    throw new RangeError('invalid dialect: it must be an object of options and their values');
  }
  check(changes as Record<string, unknown>);
  Object.assign(dialect, changes);
}

/** Parses `name=value` from the command line. Throws a RangeError if it is invalid. */
export function readDialectOption(text: string): Partial<Dialect> {
  const [name = '', ...rest] = text.split('=');
  const value = rest.join('=');
  const isAmount = Object.hasOwn(dialectOptions, name) && !('values' in dialectOptions[name as keyof Options]);
  const changes = { [name]: isAmount && /^\d+(\.\d+)?$/.test(value) ? Number(value) : value };
  check(changes);
  return changes;
}

/** Returns a line per option: name, values and description. */
export function dialectHelp(): string[] {
  return Object.entries<Choice | Amount>(dialectOptions).map(([name, option]) => {
    const values = 'values' in option ? option.values.join('|') : `${option.initial} (${option.min}-${option.max})`;
    return `${name}=${values}\n      ${option.help}`;
  });
}
