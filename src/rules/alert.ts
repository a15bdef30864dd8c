import type { CheckKind } from '../model/check-kind.ts';
import type { Notice } from '../notify/notice.ts';
import type { Silences } from '../notify/silences.ts';
import { type AlertState, withoutClock } from './state.ts';

export interface Alert {
  /** Name of the rule. Several built-in rules may have the same name; their kinds differ. */
  readonly rule: string;
  readonly kind?: CheckKind | undefined;
  /** Identity of the alert, including `alertname` and `account`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly value: number;
  readonly state: AlertState;
  /** Whether the configuration does not send the alert: its kind or severity is not sent. */
  readonly isUnsent?: boolean | undefined;
  /** Number of series over the limit that this alert represents. */
  readonly omitted?: number | undefined;
  /** Reason for the silence that matches the firing alert. */
  readonly silencedBy?: string | undefined;
}

export interface Evaluated {
  readonly alerts: ReadonlyMap<string, Alert>;
  /** Names of rules with series of unknown state, and their kinds. */
  readonly unknown: ReadonlySet<string>;
}

type RuleIdentity = Pick<Alert, 'kind'> & { readonly name: string };

export const isOfRule = ({ rule, kind }: Alert, { name, kind: own }: RuleIdentity): boolean =>
  rule === name && kind === own;

/** Returns the names by which `states` and `autoCancel.pauseWhileAlerts` refer to a rule. */
export const ruleNames = ({ name, kind }: RuleIdentity): readonly string[] =>
  kind === undefined ? [name] : [name, kind];

function toNotice({ labels, annotations, state, silencedBy }: Alert): readonly Notice[] {
  if (state.phase === 'pending') return [];
  const { startsAt } = state;
  if (state.phase === 'resolved') return [{ status: 'resolved', labels, annotations, startsAt, endsAt: state.endsAt }];
  const firing = { status: 'firing', labels, annotations, startsAt, firedAt: state.firedAt } as const;
  return [silencedBy === undefined ? firing : { ...firing, isSuppressed: true }];
}

/** Returns the alerts that the configuration sends. */
export const sentOf = (evaluated: Evaluated): Evaluated => ({
  ...evaluated,
  alerts: new Map([...evaluated.alerts].filter(([, { isUnsent }]) => !isUnsent)),
});

export const noticesOf = (evaluated: Evaluated): readonly Notice[] =>
  [...sentOf(evaluated).alerts.values()].flatMap(toNotice);

/** Returns the stored part of an alert. Silences are matched again after a restart. */
const stored = ({ silencedBy: _, ...alert }: Alert) => ({ ...alert, state: withoutClock(alert.state) });
export const rowOf = (alert: Alert) => JSON.stringify(stored(alert));
/** Returns a text that changes when the alert's row must be written again. */
export function versionOf(alert: Alert): string {
  const { state, isUnsent } = stored(alert);
  return JSON.stringify({ state, isUnsent });
}

/** Marks silenced alerts, which are evaluated and shown, but not sent. */
export function withSilences(next: Evaluated, silences: Silences): Evaluated {
  const mark = (alert: Alert): Alert =>
    alert.state.phase === 'firing' ? { ...alert, silencedBy: silences.reasonFor(alert.labels) } : alert;
  return { ...next, alerts: new Map([...next.alerts].map(([key, alert]) => [key, mark(alert)])) };
}
