import type { ShownFacts } from '../../collectors/index.ts';
import { MINUTE } from '../../kit/duration.ts';
import type { Growth } from '../../metrics/thresholds.ts';
import { CHECK_SEVERITIES, type CheckKind, type CheckSeverity } from '../../model/check-kind.ts';
import type { Durations } from '../state.ts';
import type { CheckInput } from './account.ts';

export interface Finding {
  /** Set if the check can have several findings. */
  readonly subject?: string;
  /** Start (ms since the Unix epoch), if the data shows it. Default: the time of the first detection. */
  readonly since?: number | undefined;
  /** Default: the severity of the check. No alert fires for a finding of lower severity than that of its kind. */
  readonly severity?: CheckSeverity;
  /** Time after the start of the problem for which it is only a warning (ms). */
  readonly warningFor?: number;
  readonly text: string;
  /** Id of the kind of dead letters that the text names. */
  readonly deadLetterKind?: string;
  /** Start of the next attempt (ms since the Unix epoch). Alerts omit it, because they are read later. */
  readonly retryAt?: number | undefined;
}

/**
 * Result if data or history is missing: the check can neither report a finding nor rule it out. Without a subject, it applies
 * to all subjects.
 */
export interface Unknown extends Pick<Finding, 'subject'> {
  readonly isUnknown: true;
}

export const UNKNOWN: Unknown = { isUnknown: true };

/** Result of a check: findings, and subjects without a result. A plain string is a finding with only a text. */
export type Findings = CheckOutcome | readonly CheckOutcome[];
export type CheckOutcome = string | Finding | Unknown;

export type BuiltinAlert = `Delivery${string}`;

/**
 * Detects one kind of problem of an account or of the agent. `check` is pure. Several checks may detect one kind: all of them have
 * the same alert and durations, and the first one has the severity of the kind.
 */
export interface Check<I> extends Durations {
  readonly kind: CheckKind;
  /** Name of the alert and of its runbook. */
  readonly alert: BuiltinAlert;
  readonly severity: CheckSeverity;
  /** Whether the alert is sent only if `alerts.builtin.enable` lists the kind. */
  readonly isOff?: boolean;
  /**
   * Collector of the data that the check reads: the check applies only to accounts that enable it. Without current data, the result
   * is unknown; partial data can prove a finding but not rule one out.
   */
  readonly collector?: keyof ShownFacts;
  /** Whether partial data suffices, because the check reads only a size that includes unreadable rows. */
  readonly readsSize?: boolean;
  /** Condition for a finding, as Markdown for docs/alerts.md. */
  readonly when: string;
  check(input: I): Findings;
}
export type AccountCheck = Check<CheckInput>;

/**
 * `for`: how long a finding must last before its alert fires (ms). `keepFiringFor`: how long the alert keeps firing after its last
 * finding (ms): 0 for proven states, because one good answer disproves them; longer for shares and growth, which may exceed their
 * limit again.
 */
type Definition<I> = Partial<Check<I>> & Pick<Check<I>, 'when' | 'check'>;

const DEFAULTS = { severity: 'warning', for: 0, keepFiringFor: 0 } as const;

export const defineCheck = <I = CheckInput>(
  kind: CheckKind,
  alert: BuiltinAlert,
  definition: Definition<I>,
): Check<I> => ({ ...DEFAULTS, kind, alert, ...definition });

/** Defines checks of one collector's data. */
export const checksOf =
  (collector: keyof ShownFacts) =>
  (kind: CheckKind, alert: BuiltinAlert, definition: Definition<CheckInput>): AccountCheck =>
    defineCheck(kind, alert, { collector, ...definition });

/** `keepFiringFor` of alerts on a share or on growth. */
export const KEEP_FIRING_FOR = 15 * MINUTE;

export const isAtLeast = (severity: CheckSeverity, lowest: CheckSeverity): boolean =>
  CHECK_SEVERITIES.indexOf(severity) <= CHECK_SEVERITIES.indexOf(lowest);

/** Returns the severity of a finding. `age`: time since the start of the problem (ms). */
export const severityOf = (
  check: Pick<Check<never>, 'severity'>,
  { severity = check.severity, warningFor = 0 }: Pick<Finding, 'severity' | 'warningFor'>,
  age: number,
): CheckSeverity => (age < warningFor ? 'warning' : severity);

/** Tolerance of `covers` (ms): the history has one sample a minute. */
const LATE = 2 * MINUTE;

/** Whether a change covers the window `over` (ms). A change over a shorter time can prove a condition but not rule it out. */
export const covers = (change: { readonly overSeconds: number } | null | undefined, over: number): boolean =>
  change !== null && change !== undefined && 1000 * change.overSeconds >= over - LATE;

/** Converts a time by the service's clock into the agent's. */
export const toAgentTime = ({ now, serviceNow }: CheckInput, time: number | undefined) =>
  time === undefined ? undefined : time - serviceNow + now;

/** Returns the interval of a round (ms); 0 if its collector is disabled. */
export const intervalOf = ({ rounds }: CheckInput, collector: string, name: string) =>
  rounds.find(each => each.collector === collector && each.round === name)?.every ?? 0;

/** Whether a number has grown by more than the threshold. */
export const isMoreBy = ({ share, fewest, many }: Growth, now: number, before: number) =>
  now - before > Math.min(Math.max(share * before, fewest), many);
