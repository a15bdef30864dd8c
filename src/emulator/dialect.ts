/** How a list applies the parameter of a filter. `exact` is the default. */
type FilterMode = 'exact' | 'ignored' | 'any-case' | 'prefix';

/** Variant of the service's API. May change while the emulator runs. Shares are from 0 to 1. */
export interface Dialect {
  flowControlKeySize: 'waitlistSize' | 'waitListSize';
  /** Fields of a flow-control key: only the documented size, or also all newer fields. */
  flowControlFields: 'documented' | 'all';
  /** Fields of a flow-control key that are 0 or false. */
  flowControlZeros: 'present' | 'omitted';
  idleKey: 'found' | 'missing';
  /** Existing paths of the event log. A missing path returns 404. */
  eventPaths: 'both' | 'events' | 'logs';
  eventState: 'lower' | 'upper';
  lastCursor: 'absent' | 'empty';
  highCount: 'lowered' | 'refused';
  order: 'obeyed' | 'ignored';
  /** Whether /v2/dlq also lists failed workflow runs, or only with `source=workflow`. */
  dlqWorkflows: 'included' | 'separate';
  /** Field with the state of an entry's failure callback. */
  callbackState: 'failureCallbackInfo' | 'failureFunctionState' | 'both' | 'absent';
  /**
   * Response to a cancel. Suffixes: `Location` names another dead letter, the request itself, or a dead letter on another
   * host. 400 cancels nothing.
   */
  cancelAnswer: '302' | '302-location' | '302-self' | '302-foreign' | '200' | '202' | '204' | '400';
  /** Maximum requests per second of an account. Further requests get 429. */
  requestsPerSecond: number;
  burstReset: 'seconds' | 'milliseconds';
  readOnlyWrite: '403' | '401';
  /** Share of events that are listed with an additional delay, between events that were already listed. */
  logLateShare: number;
  /** Maximum additional delay, in emulated milliseconds. */
  logLateMs: number;
  /** Share of events that are listed twice in the same list. */
  logDuplicates: number;
  /** Whether each further page of events starts after the last row of the previous page or repeats it. */
  cursorSeam: 'exact' | 'repeats';
  /** Default and maximum number of events per page. */
  eventsMost: number;
  /** Filters of the DLQ and event lists that are not exact, by parameter. Date filters are exact or ignored. */
  filters: Readonly<Record<string, FilterMode>>;
}

/** Returns the dialect of the API documentation, with `changes`. Undocumented parts follow the official clients. */
export const dialectWith = (changes: Partial<Dialect>): Dialect => ({
  flowControlKeySize: 'waitlistSize',
  flowControlFields: 'documented',
  flowControlZeros: 'present',
  idleKey: 'found',
  eventPaths: 'both',
  eventState: 'lower',
  lastCursor: 'absent',
  highCount: 'lowered',
  order: 'obeyed',
  dlqWorkflows: 'included',
  callbackState: 'failureCallbackInfo',
  cancelAnswer: '302',
  requestsPerSecond: 100_000,
  burstReset: 'seconds',
  readOnlyWrite: '403',
  logLateShare: 0,
  logLateMs: 0,
  logDuplicates: 0,
  cursorSeam: 'exact',
  eventsMost: 1000,
  filters: {},
  ...changes,
});
