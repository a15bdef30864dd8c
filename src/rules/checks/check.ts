import type { ShownFacts } from '../../collectors/index.ts';
import { MINUTE } from '../../kit/duration.ts';
import type { Growth } from '../../metrics/thresholds.ts';
import { CHECK_SEVERITIES, type CheckKind, type CheckSeverity } from '../../model/check-kind.ts';
import type { Durations } from '../state.ts';
import type { CheckInput } from './account.ts';

export interface Finding {
  readonly subject?: string;
  /** Start (ms since the Unix epoch), if the data shows it. Default: the time of the first detection. */
  readonly since?: number | undefined;
  readonly text: string;
  /** Id of the kind of dead letters that the text names. */
  readonly deadLetterKind?: string;
}

/**
 * Result if data or history is missing: the check can neither report a finding nor rule it out. Without a subject, it applies
 * to all subjects.
 */
export interface Unknown extends Pick<Finding, 'subject'> {
  readonly isUnknown: true;
}

export const UNKNOWN: Unknown = { isUnknown: true };

/** Result of a check: findings, and subjects with an unknown result. A plain string is a finding with only a text. */
export type Findings = CheckOutcome | readonly CheckOutcome[];
export type CheckOutcome = string | Finding | Unknown;
export type FoundOf = Omit<Finding, 'subject'> | 'unknown' | false | undefined;

export type BuiltinAlert = `Delivery${string}`;

/**
 * Detects one kind of problem of an account or of the agent. `check` is pure. Several checks may detect one kind: all of them have
 * the same alert, severity and durations.
 */
export interface Check<I> extends Durations {
  readonly kind: CheckKind;
  /** Name of the alert and of its runbook. */
  readonly alert: BuiltinAlert;
  readonly severity: CheckSeverity;
  /** Whether the alert is sent only if `alerts.builtin.enable` lists the kind. */
  readonly isOff?: boolean;
  /**
   * Collector of the data that the check reads. The check applies only to accounts that enable this collector. Without current
   * data, the result is unknown; partial data can prove a finding but not rule one out.
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
 * `for`: how long a finding must last before its alert fires (ms). `keepFiringFor`: how long the alert keeps firing after its
 * last finding (ms). This is 0 for proven states, because one good response disproves them. It is longer for shares and growth,
 * which may soon exceed their limit again.
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

/**
 * Creates the function of a check that runs for each of several rows, such as queues. `subjectOf`: returns the subject of a row;
 * `check`: returns false if it has no finding.
 */
export const eachOf =
  <Row>(
    rowsOf: (input: CheckInput) => readonly Row[],
    subjectOf: (row: Row) => string,
    check: (input: CheckInput, row: Row) => FoundOf,
  ) =>
  (input: CheckInput): readonly CheckOutcome[] =>
    rowsOf(input).flatMap((row): CheckOutcome | [] => {
      const subject = subjectOf(row);
      const found = check(input, row);
      if (found === 'unknown') return { subject, isUnknown: true };
      return found ? { ...found, subject } : [];
    });

/** `keepFiringFor` of alerts on a share or on growth. */
export const KEEP_FIRING_FOR = 15 * MINUTE;

export const isAtLeast = (severity: CheckSeverity, lowest: CheckSeverity): boolean =>
  CHECK_SEVERITIES.indexOf(severity) <= CHECK_SEVERITIES.indexOf(lowest);

/** Tolerance of `covers` (ms): the history has one sample a minute. */
const LATE = 2 * MINUTE;

/** Whether a change covers the window `over` (ms). A change over a shorter time can prove a condition but not rule it out. */
export const covers = (change: { readonly overSeconds: number } | null | undefined, over: number): boolean =>
  change !== null && change !== undefined && 1000 * change.overSeconds >= over - LATE;

/** Converts a time of the service's clock into a time of the agent's clock. */
export const toAgentTime = ({ now, serviceNow }: CheckInput, time: number | undefined) =>
  time === undefined ? undefined : time - serviceNow + now;

export const isMoreBy = ({ share, fewest, many }: Growth, now: number, before: number) =>
  now - before > Math.min(Math.max(share * before, fewest), many);
