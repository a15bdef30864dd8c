import type { RecentChanges } from '../../history/recent.ts';
import { MINUTE } from '../../kit/duration.ts';
import type { Objectives } from '../../metrics/objectives.ts';
import type { AccountMeter } from '../../metrics/own.ts';
import type { Growth } from '../../metrics/thresholds.ts';
import type { CheckKind, CheckSeverity } from '../../model/check-kind.ts';
import type { AccountHistory } from '../../model/history.ts';
import type { AutoCancelNumbers } from '../../model/journal.ts';
import type { CheckedAccount } from './account.ts';
import { type BuiltinAlert, builtinAlert } from './alerts.ts';

export interface CheckInput {
  readonly view: CheckedAccount;
  /** Times are in milliseconds since the Unix epoch. */
  readonly now: number;
  /** `now` by the service's clock, which times of its data are compared with. */
  readonly serviceNow: number;
  readonly objectives: Pick<Objectives, 'window' | 'dlqMaxAge'>;
  readonly meter: Pick<AccountMeter, 'requests' | 'rowsRejected' | 'listsMissing'>;
  readonly autoCancel: AutoCancelNumbers | undefined;
  readonly autoCancelFailure?: Error | undefined;
  readonly recent: AccountHistory['recent'];
  readonly changes: RecentChanges;
  /** Returns when a finding was first recorded; undefined for a new one. */
  readonly firstSeen: (finding: { readonly kind: CheckKind; readonly subject: string | null }) => number | undefined;
}

export interface Finding {
  /** Set if the check can have several findings. */
  readonly subject?: string;
  /** Alert labels that identify the subject. Default: the check's label with the subject as value. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Start (ms since the Unix epoch). Default: the time of the first detection. */
  readonly since?: number | undefined;
  /** Default: the severity of the check. An alert ignores findings of lower severity than its own. */
  readonly severity?: CheckSeverity;
  readonly text: string;
  /** Start of the next attempt (ms since the Unix epoch). Alerts omit it, because they are read later. */
  readonly retryAt?: number | undefined;
}

/**
 * Result if data or history is missing: the check can neither report a finding nor rule it out. Without a subject, it applies
 * to all subjects.
 */
export interface Unknown extends Pick<Finding, 'subject' | 'labels'> {
  readonly isUnknown: true;
}

export const UNKNOWN: Unknown = { isUnknown: true };

/** Result of a check: findings, and subjects without a result. A plain string is a finding with only a text. */
export type Findings = CheckOutcome | readonly CheckOutcome[];
export type CheckOutcome = string | Finding | Unknown;

/** Collectors with checks, and the property of `CheckedAccount` that contains their data. */
export const PARTS = { dlq: 'deadLetters', events: 'events', flow_control: 'flowControl' } as const;
export type CheckedCollector = keyof typeof PARTS;

/** Detects one kind of problem of an account or of the agent. `check` is pure. */
export interface Check<I> {
  readonly kind: CheckKind;
  /** The alert that is sent. Several checks can feed one alert. */
  readonly alert: BuiltinAlert;
  readonly severity: CheckSeverity;
  /**
   * Collector whose data the check reads: the check applies only to accounts that enable it. Without current data, the result
   * is unknown; partial data can prove a finding but not rule one out.
   */
  readonly collector?: CheckedCollector;
  /** Condition for a finding, as Markdown for docs/problems.md. */
  readonly when: string;
  check(input: I): Findings;
}
export type AccountCheck = Check<CheckInput>;

interface Definition<I> extends Pick<Check<I>, 'when' | 'check'> {
  /** Default: the severity of the alert. */
  readonly severity?: CheckSeverity;
}

export const defineCheck = <I>(kind: CheckKind, alert: BuiltinAlert, definition: Definition<I>): Check<I> => ({
  kind,
  alert,
  severity: builtinAlert(alert).severity,
  ...definition,
});

/** Defines checks of one collector's data; `check` gets its part of the view. */
export const checksOf =
  <C extends CheckedCollector>(collector: C) =>
  (
    kind: CheckKind,
    alert: BuiltinAlert,
    {
      check,
      ...more
    }: Omit<Definition<CheckInput>, 'check'> & {
      readonly check: (input: CheckInput, part: CheckedAccount[(typeof PARTS)[C]]) => Findings;
    },
  ): AccountCheck => ({
    ...defineCheck<CheckInput>(kind, alert, { ...more, check: input => check(input, input.view[PARTS[collector]]) }),
    collector,
  });

/** Tolerance of `covers` (ms): the history has one sample a minute. */
const LATE = 2 * MINUTE;

/** Whether a change covers the window `over` (ms). A change over a shorter time can prove a condition but not rule it out. */
export const covers = (change: { readonly overSeconds: number } | null | undefined, over: number): boolean =>
  change !== null && change !== undefined && 1000 * change.overSeconds >= over - LATE;

/** Converts a time by the service's clock into the agent's. */
export const toAgentTime = ({ now, serviceNow }: CheckInput, time: number | undefined) =>
  time === undefined ? undefined : time - serviceNow + now;

export const msOf = (iso: string | null) => (iso === null ? undefined : Date.parse(iso));

/** Returns the interval of a round (s); 0 if its collector is disabled. */
export const everySeconds = ({ rounds }: CheckedAccount, collector: string, name: string) =>
  rounds.find(each => each.collector === collector && each.round === name)?.everySeconds ?? 0;

/** Whether a number has grown by more than `part` times the threshold. */
export const isMoreBy = ({ share, fewest, many }: Growth, now: number, before: number, part = 1) =>
  now - before > part * Math.min(Math.max(share * before, fewest), many);

/** Returns the age of a finding (ms); 0 for a new one. */
export const seenFor = ({ firstSeen, now }: CheckInput, kind: CheckKind, subject: string | null) =>
  now - (firstSeen({ kind, subject }) ?? now);

/** Returns the threshold factor for a kind of problem: 0.7 if it was found in the last five minutes, so that it does not flap. */
export const easing = ({ firstSeen }: CheckInput, kind: CheckKind) =>
  firstSeen({ kind, subject: null }) === undefined ? 1 : 0.7;
