/** Returns the value of a series at a minute; undefined if there is no sample. */
export type Values = (minute: number) => number | undefined;

/** Values of series by `name{labels}`, without the labels job, instance and account. */
export type Input = Readonly<Record<string, Values>>;

/** Situations in which every alert is tested. */
export type Variant =
  // Two replicas fire a single alert, and one replica is sufficient to fire it.
  | 'two replicas'
  // Some scrapes fail.
  | 'missing samples'
  // The agent restarts with its store.
  | 'restart'
  // The agent restarts without its store: counters restart at 0.
  | 'reset'
  // The agent is added to a running Prometheus.
  | 'first hour'
  // Every counter rises to at most one.
  | 'low traffic'
  // Two namespaces with an account of the same name: one affected, one healthy or blind.
  | 'namespaces'
  // Labels that the scrape adds: one common to all replicas, one that differs.
  | 'target labels'
  // Unreadable rows may contain the data that would resolve the alert.
  | 'rejected rows'
  // Reads fail for an hour, then all changes appear at once.
  | 'blind hour'
  // Like `blind hour`, but for a day, or for six hours if windows are short.
  | 'blind day'
  // Replicas share a database and the account moves: after its lease is released, after its holder is killed, or while the
  // holder runs without the database.
  | 'handover'
  // One of two replicas is blind for as long as in `blind day` and then catches up; the other one sees everything.
  | 'behind replica';

/** Reasons why a variant does not apply to an alert. */
export type Reason =
  // A single occurrence makes the alert fire.
  | 'one is enough'
  // The alert fires when the agent detects the cause, regardless of its age.
  | 'fires on detection'
  // The metric includes unreadable rows.
  | 'counts unreadable rows'
  // The counter of a new store does not include the cause.
  | 'counted by the store'
  // The threshold depends on how much of the UTC day is left.
  | 'time of day'
  // The alert is about a missing target and has no target labels.
  | 'agent-wide';

/** Exemptions for alerts that fire on detection or on a single counter increase, regardless of the age of the cause. */
export const FIRES_ONCE = {
  'low traffic': 'one is enough',
  reset: 'counted by the store',
  'blind hour': 'fires on detection',
  'blind day': 'fires on detection',
  'behind replica': 'fires on detection',
} as const satisfies AlertCase['exempt'];

/**
 * An alert and its inputs. The agent is installed at minute 0, which is time 0. Every input also contains the series of a
 * healthy agent, which it may override.
 */
export interface AlertCase {
  readonly alert: string;
  /** Labels of the alert except alertname, severity, job and account. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly fires: Input;
  /** First minute at which the alert fires; a multiple of `step`. */
  readonly at: number;
  /** Description of the alert at minute `at`. */
  readonly description: string;
  /** Inputs by name that must not make the alert fire, such as values just below a limit. */
  readonly below: Readonly<Record<string, Input>>;
  /** Input of an idle account. */
  readonly idle: Input;
  /** Input that resolves the alert if `idle` does not. */
  readonly recovery?: Input;
  /** Maximum time for which the expression stays true after the cause has ended: its shortest window (minutes). Default 60. */
  readonly memory?: number;
  /** Time after blindness until the alert can be evaluated again: its longest window (minutes). Default `memory`. */
  readonly evaluableAfter?: number;
  /** Interval between samples and between evaluations (minutes): 1, or 4 for multi-day windows. Default 1. */
  readonly step?: 1 | 4;
  /** Variants that do not apply, with the reason. */
  readonly exempt?: Readonly<Partial<Record<Variant, Reason>>>;
}

export const flat =
  (value: number): Values =>
  () =>
    value;
/** A counter that increases by `perMinute` up to `most`. */
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
/** A timestamp (s) that is always `seconds` in the past. */
export const ago =
  (seconds: number): Values =>
  minute =>
    60 * minute - seconds;
