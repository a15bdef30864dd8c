interface Choice<V extends string = string> {
  readonly help: string;
  /** The first is the default. */
  readonly values: readonly [V, ...V[]];
}

interface Amount {
  readonly help: string;
  readonly least: number;
  readonly most: number;
  readonly usual: number;
}

const choice = <const V extends string>(help: string, ...values: [V, ...V[]]): Choice<V> => ({ help, values });
const amount = (help: string, usual: number, least: number, most: number): Amount => ({ help, usual, least, most });

const filtering = (parameter: string) =>
  choice(`how the lists apply the parameter ${parameter}`, 'exact', 'ignored', 'any-case', 'prefix');
const dateFiltering = (parameter: string) =>
  choice(`how the lists apply the parameter ${parameter}`, 'exact', 'ignored');

const DAY_MS = 86_400_000;
/** Retention of events; a later one would never be listed. */
const LATEST_MS = 6 * 3_600_000;

/** Differences between accounts of the service. Defaults follow the interface document, else the official clients. */
export const dialectOptions = {
  flowControlList: choice('flow-control list: inside an object, or bare', 'object', 'array'),
  flowControlListSize: choice('name of the size in the flow-control list', 'waitListSize', 'waitlistSize'),
  flowControlKeySize: choice('name of the size in a single flow-control key', 'waitlistSize', 'waitListSize'),
  flowControlFields: choice('fields of a flow-control key: only the size, or all newer ones', 'documented', 'all'),
  flowControlZeros: choice('fields of a flow-control key that are 0 or false', 'present', 'omitted'),
  idleKey: choice('response for an idle flow-control key', 'found', 'missing'),
  eventPaths: choice('event log paths that exist; the other answers 404', 'both', 'events', 'logs'),
  eventsList: choice('name of the list in the response of /v2/events', 'events', 'logs'),
  logsList: choice('name of the list in the response of /v2/logs', 'logs', 'events'),
  eventTime: choice('times of events', 'text', 'number'),
  eventState: choice('states of events', 'lower', 'upper'),
  eventCancelled: choice('spelling of the state of a cancelled message', 'cancelled', 'canceled'),
  lastCursor: choice('the cursor of a last page', 'absent', 'empty'),
  highCount: choice('count above the maximum', 'lowered', 'refused'),
  order: choice('whether the lists honour the parameter order', 'obeyed', 'ignored'),
  dlqWorkflows: choice('whether /v2/dlq lists failed workflow runs without being asked', 'included', 'separate'),
  callbackState: choice(
    'field with the state of an entry’s failure callback; absent: no field reports it',
    'failureCallbackInfo',
    'failureFunctionState',
    'both',
    'absent',
  ),
  cancelAnswer: choice(
    'status of a cancelled failure callback; those with a Location name a dead letter, itself, and a dead letter on another host; 400 cancels nothing',
    '302',
    '302-location',
    '302-self',
    '302-foreign',
    '200',
    '202',
    '204',
    '400',
  ),
  cancelTakesMs: amount('emulated milliseconds until a callback shows that it is cancelled', 0, 0, DAY_MS),
  requestsPerSecond: amount('requests of an account per second before it gets 429', 100_000, 1, 1_000_000),
  burstReset: choice('unit of Burst-RateLimit-Reset', 'seconds', 'milliseconds'),
  retryAfter: choice('Retry-After beside 429', 'absent', 'present'),
  readOnlyWrite: choice('status of a write with the read-only token', '403', '401'),
  logLagMs: amount('emulated milliseconds until an event is listed', 0, 0, DAY_MS),
  logLateShare: amount('share of events that are listed late, between events that were already listed', 0, 0, 1),
  logLateMs: amount('maximum lateness of such an event, in emulated milliseconds', 0, 0, LATEST_MS),
  logDuplicates: amount('share of events that are listed twice in the same list', 0, 0, 1),
  cursorSeam: choice(
    'each further page of events starts after the last row of the previous page, or repeats that row',
    'exact',
    'repeats',
  ),
  eventsMost: choice('rows per page of events: default and maximum', '1000', '100'),
  retrySlot: choice(
    'slot of a flow-control key while a message waits for its retry: given back, kept, or kept if the retry is due within a minute',
    'released',
    'kept',
    'kept-briefly',
  ),
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
  createdDue: choice(
    'field of a CREATED event with the due time of a delayed message',
    'absent',
    'nextDeliveryTime',
    'notBefore',
  ),
} as const satisfies Readonly<Record<string, Choice | Amount>>;

type Options = typeof dialectOptions;

/** How the emulated service speaks. May be changed while it runs. */
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
  const { least, most } = option;
  const isIn = typeof value === 'number' && value >= least && value <= most;
  return isIn ? undefined : `${name} must be a number from ${least} to ${most}`;
}

function check(changes: Readonly<Record<string, unknown>>): asserts changes is Partial<Dialect> {
  for (const [name, value] of Object.entries(changes)) {
    const wrong = fault(name, value);
    if (wrong) throw new RangeError(wrong);
  }
}

/** The defaults with `changes` over them. Throws a RangeError that says what is wrong. */
export function dialectWith(changes: Readonly<Record<string, unknown>>): Dialect {
  check(changes);
  const usual = Object.entries<Choice | Amount>(dialectOptions).map(([name, option]) => [
    name,
    'values' in option ? option.values[0] : option.usual,
  ]);
  return { ...Object.fromEntries(usual), ...changes };
}

/** Applies the options in `changes`: all of them or, with a RangeError that says what is wrong, none. */
export function changeDialect(dialect: Dialect, changes: unknown): void {
  if (typeof changes !== 'object' || changes === null || Array.isArray(changes)) {
    throw new RangeError('invalid dialect: it must be an object of options and their values');
  }
  check(changes as Record<string, unknown>);
  Object.assign(dialect, changes);
}

/** Reads `name=value`, as it stands on a command line. Throws a RangeError that says what is wrong. */
export function readDialectOption(text: string): Partial<Dialect> {
  const [name = '', ...rest] = text.split('=');
  const value = rest.join('=');
  const isAmount = Object.hasOwn(dialectOptions, name) && !('values' in dialectOptions[name as keyof Options]);
  const changes = { [name]: isAmount && /^\d+(\.\d+)?$/.test(value) ? Number(value) : value };
  check(changes);
  return changes;
}

/** One line for each option: name, values with the default first, what it is. */
export function dialectHelp(): string[] {
  return Object.entries<Choice | Amount>(dialectOptions).map(([name, option]) => {
    const values = 'values' in option ? option.values.join('|') : `${option.usual} (${option.least}-${option.most})`;
    return `${name}=${values}\n      ${option.help}`;
  });
}
