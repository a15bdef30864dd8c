/** The value of a series at each minute; undefined: no sample. */
export type Values = (minute: number) => number | undefined;

/** Series by `name{labels}`, without job, instance and account. */
export type Input = Readonly<Record<string, Values>>;

/** What every alert is tried with, besides that it fires, and that it does not. */
export const VARIANTS = {
  'two replicas': 'two replicas are one incident, and one of them is enough',
  'missing samples': 'some scrapes fail',
  restart: 'the agent restarts, and its store is there',
  reset: 'the agent restarts without its store: counters begin at 0 again',
  'first hour': 'the agent is installed beside a Prometheus that has been running',
  'low traffic': 'one of everything that is counted, and no more',
  namespaces: 'two namespaces with an account of the same name: one ill, one well or blind',
  'target labels': 'labels that the scrape adds: one that all replicas share, one that differs between them',
  'rejected rows': 'rows can not be read, and what would end the alert may be among them',
  'blind hour': 'nothing can be read for an hour, then all that happened meanwhile comes at once',
  'blind day': 'the same for a day, or for some hours where windows are no longer',
  'hand-over':
    'replicas share a database, and the account goes over to another: given back, after the end of the holder, or while that goes on without the database',
  'behind replica': 'one of two replicas is blind for as long and catches up; the other saw everything',
} as const;
export type Variant = keyof typeof VARIANTS;

/** Why a variant makes no sense for an alert. */
export const REASONS = {
  'one is enough': 'a single one is worth telling',
  'told when found': 'it is about what the agent found, whenever it happened',
  'counts unreadable rows': 'its numbers include them',
  'counted by the store': 'the counter of a new store does not contain it',
  'time of day': 'what it allows depends on how much of the UTC day is left',
  'of no account': 'it has no labels of the target: it is about what is not there',
} as const;
export type Reason = keyof typeof REASONS;

/** Of what is told once, whenever it came: by the agent that finds it, or counts it. */
export const TOLD_ONCE = {
  'low traffic': 'one is enough',
  reset: 'counted by the store',
  'blind hour': 'told when found',
  'blind day': 'told when found',
  'behind replica': 'told when found',
} as const satisfies AlertCase['exempt'];

/**
 * What one alert is about. Minute 0 is when the agent was installed, and time 0. Health series are added to every input:
 * an agent that reads everything well, unless the input says otherwise.
 */
export interface AlertCase {
  readonly alert: string;
  /** Of the alert, besides alertname, severity, job and account. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly fires: Input;
  /** The minute at which it fires, and not a minute before. A multiple of `step`. */
  readonly at: number;
  /** The description it then has. */
  readonly says: string;
  /** What must never make it fire: just below a limit, by its name. */
  readonly below: Readonly<Record<string, Input>>;
  /** An account at rest. */
  readonly idle: Input;
  /** What ends it, where rest does not. */
  readonly recovery?: Input;
  /** So many minutes after a trouble the alert may still be true: the shortest of the windows that must agree. Default 60. */
  readonly memory?: number;
  /** So many minutes after a blindness the alert can be judged again: the longest of its windows. Default `memory`. */
  readonly judgedAfter?: number;
  /** Minutes between samples, and between evaluations: 1, or 4 where windows are days. Default 1. */
  readonly step?: 1 | 4;
  /** Variants that make no sense for it, and why. */
  readonly exempt?: Readonly<Partial<Record<Variant, Reason>>>;
}

export const flat =
  (value: number): Values =>
  () =>
    value;
/** A counter that rises evenly, by so much a minute, up to `most`. */
export const rising =
  (perMinute: number, most = Number.POSITIVE_INFINITY): Values =>
  minute =>
    Math.min(most, perMinute * minute);
export const from =
  (start: number, value: number, before = 0): Values =>
  minute =>
    minute < start ? before : value;
export const until =
  (end: number, value: number, after = 0): Values =>
  minute =>
    minute < end ? value : after;
/** A time, in seconds, that is always so many seconds ago. */
export const ago =
  (seconds: number): Values =>
  minute =>
    60 * minute - seconds;
