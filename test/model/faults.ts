/** The faulty responses of the simulated service. */

/** Functions that return unusable bodies. `list`: name of the requested list. `rows`: rows of the correct response. */
const BODIES: Readonly<Record<string, (list: string, rows: readonly object[]) => string>> = {
  error_beside_empty: list => JSON.stringify({ [list]: [], error: 'backend unavailable' }),
  error_beside_rows: (list, rows) => JSON.stringify({ [list]: rows, error: 'shard unavailable' }),
  no_list: () => JSON.stringify({ message: 'maintenance' }),
  null_list: list => JSON.stringify({ [list]: null, total: 3 }),
  object_list: list => JSON.stringify({ [list]: {} }),
  text_list: list => JSON.stringify({ [list]: 'none' }),
  bare_null_row: () => '[null]',
  null_rows: list => JSON.stringify({ [list]: [null] }),
  unreadable: (list, rows) => JSON.stringify({ [list]: [...rows, {}].map(() => ({ identifier: 'x' })) }),
  truncated: (list, rows) => JSON.stringify({ [list]: rows }).slice(0, -3),
  html: () => '<html>busy</html>',
  number: () => '5',
};

/** Faults that only change the status. */
const STATUSES = { s500: 500, s503: 503, s429: 429, s401: 401, s403: 403, s302: 302 } as const;

export const FAULTS = [
  ...(Object.keys(BODIES) as (keyof typeof BODIES & string)[]),
  ...(Object.keys(STATUSES) as (keyof typeof STATUSES)[]),
  /** One unreadable row among readable ones. */
  'some_unreadable',
  'cursor_loop',
  'page_twice',
  'empty_page',
  'no_answer',
  'reset',
  'slow',
] as const;
export type Fault = (typeof FAULTS)[number];

/** Faulty responses to a DELETE. `done`: the DELETE is executed. `undone`: it is not. */
export const CANCEL_FAULTS = [
  's302',
  's302_undone',
  's404_done',
  's404_undone',
  's400_undone',
  's500_done',
  's500_undone',
  's429',
  's401',
  'lost_done',
  'lost_undone',
  'reset_done',
  'unsent',
  'slow_done',
] as const;
export type CancelFault = (typeof CANCEL_FAULTS)[number];

export const bodyOf = (fault: Fault, list: string, rows: readonly object[]) => BODIES[fault]?.(list, rows);

export const statusOf = (fault: Fault) => (STATUSES as Readonly<Record<string, number | undefined>>)[fault];
