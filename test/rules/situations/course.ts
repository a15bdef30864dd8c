/** The course of an account: the value of each of its numbers at each minute. */

/** Returns the value at a minute, or undefined if it has no value. */
export type Values = (minute: number) => number | undefined;

/**
 * Numbers that only rise. The agent counts their increase: messages and attempts, in total or to one destination
 * (`failed api.example.com`); dead letters (`entered` follows from `dead` by default); starts of a schedule (`missed nightly`); and
 * the agent's own counters: `requests rate_limited` and unreadable rows (`rejected dlq`).
 */
const COUNTERS = [
  'created',
  'active',
  'retry',
  'error',
  'delivered',
  'failed',
  'overdue',
  'gaps',
  'entered',
  'removed',
  'expired',
  'missed',
  'late',
  'requests',
  'rejected',
] as const;

/**
 * Times, in seconds after minute 0: `oldest` of dead letters, `newest` of events, the last delivery of a queue (`sent`), `started` and
 * `done` of a configured schedule; of a schedule that the service lists, its pause (`halted`), a start that was not due (`extra`) and
 * the first list without it (`gone`); and the start of the oldest workflow run (`ran`).
 */
const TIMES = [
  'sent',
  'oldest',
  'newest',
  'started',
  'done',
  'next',
  'unresolved',
  'halted',
  'extra',
  'gone',
  'ran',
] as const;

/**
 * Numbers that rise and fall: dead letters, their plan limit (`most`) and their retention (s); failure callbacks by state, and
 * seemingly stuck ones; waiting messages of a flow-control key and whether it is paused, has all of its parallelism in use
 * (`full`) or has used up its rate (`limited`); deliveries of the account (`running`), which allows 100 at once; its requests of
 * the day (`used`), their limit (`quota`), whether it is `suspended`, the minute at which its plan changed (`moved`), and dead
 * letters `counted` by the management API; waiting messages of a queue (`lag`), and whether it is paused (`held`); messages in
 * flight, and overdue ones among them (`stuck`); the result of a schedule’s last start, as an index of `JUDGED`; whether all
 * messages of the last run of a listed schedule failed (`flopped`); requests left of `BUDGET`; whether the token is rejected;
 * and open breakers.
 */
type Gauge =
  | 'dead'
  | 'most'
  | 'retention'
  | 'callbacks'
  | 'suspected'
  | 'waiting'
  | 'paused'
  | 'full'
  | 'limited'
  | 'running'
  | 'used'
  | 'quota'
  | 'suspended'
  | 'moved'
  | 'counted'
  | 'lag'
  | 'held'
  | 'flying'
  | 'stuck'
  | 'judged'
  | 'flopped'
  | 'budget'
  | 'token'
  | 'breaker';

export const JUDGED = ['ok', 'missed', 'late'] as const;
export const BUDGET = 1000;

export type Name = (typeof COUNTERS)[number] | (typeof TIMES)[number] | Gauge;

/** Values by name, with the subject if there can be several. */
export type Input = { readonly [K in Name | `${Name} ${string}`]?: Values };

const nameOf = (key: string) => key.split(' ')[0] as Name;
const isCounter = (key: string) => (COUNTERS as readonly Name[]).includes(nameOf(key));
const isTime = (key: string) => (TIMES as readonly Name[]).includes(nameOf(key));

export const flat =
  (value: number): Values =>
  () =>
    value;
/** A counter that increases by `perMinute` up to `most`. */
export const rising =
  (perMinute: number, most = Number.POSITIVE_INFINITY): Values =>
  minute =>
    Math.min(most, perMinute * minute);
/** A counter that increases by `count` an hour. */
export const hourly =
  (count: number): Values =>
  minute =>
    Math.floor((minute * count) / 60);
export const from =
  (start: number, value: number, before = 0): Values =>
  minute =>
    minute < start ? before : value;
export const until =
  (end: number, value: number, after = 0): Values =>
  minute =>
    minute < end ? value : after;
/** A time that is always `seconds` in the past. */
export const ago =
  (seconds: number): Values =>
  minute =>
    60 * minute - seconds;

/** Concatenates inputs. Minute 0 of each later input becomes minute `from`. Counters continue from their previous values. */
export function course(first: Input, ...later: readonly (readonly [from: number, input: Input])[]): Input {
  return later.reduce((input, [from, next]) => followed(input, from, next), first);
}

function followed(before: Input, from: number, after: Input): Input {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])] as (keyof Input)[];
  return Object.fromEntries(
    keys.map((key): [string, Values] => {
      const [early, late] = [before[key], after[key]];
      if (isCounter(key)) {
        const start = early?.(from) ?? 0;
        const rise = (minute: number) => (late?.(minute - from) ?? 0) - (late?.(0) ?? 0);
        return [key, minute => (minute < from ? early?.(minute) : start + rise(minute))];
      }
      const shift = isTime(key) ? 60 * from : 0;
      const lateAt = (minute: number) => {
        const value = late?.(minute - from);
        return value === undefined ? undefined : value + shift;
      };
      return [key, minute => (minute < from ? early?.(minute) : lateAt(minute))];
    }),
  );
}

/** Limits every counter to at most one. */
export const oneOfEach = (input: Input): Input =>
  Object.fromEntries(
    Object.entries(input).map(([key, values]) => [
      key,
      isCounter(key) ? (minute: number) => Math.min(1, values?.(minute) ?? 0) : values,
    ]),
  );
