import type { Notice } from '../notify/notice.ts';
import type { Silences } from '../notify/silences.ts';
import { type AlertState, withoutClock } from './state.ts';

export interface Alert {
  readonly rule: string;
  /** Identity of the alert, including `alertname` and `account`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly value: number;
  readonly state: AlertState;
  /** Whether the alert has been silenced since it started firing, so no notification was sent. */
  readonly isHeldBack?: true | undefined;
  /** Reason for the silence that matches the firing alert. */
  readonly silencedBy?: string | undefined;
}

export interface Evaluated {
  readonly alerts: ReadonlyMap<string, Alert>;
  /** Rules with series of unknown state. */
  readonly unknown: ReadonlySet<string>;
  /** Number of matching series over the limit, by rule. They have no individual alerts. */
  readonly beyondCap: ReadonlyMap<string, number>;
}

export const wasSent = (alert: Alert | undefined) =>
  alert !== undefined && alert.state.phase !== 'pending' && !alert.isHeldBack;

export function toNotice({ labels, annotations, state }: Alert): Notice | undefined {
  if (state.phase === 'pending') return undefined;
  const { startsAt } = state;
  if (state.phase === 'firing') return { status: 'firing', labels, annotations, startsAt };
  return { status: 'resolved', labels, annotations, startsAt, endsAt: state.endsAt };
}

export const noticesOf = ({ alerts }: Evaluated) =>
  [...alerts.values()].flatMap(alert =>
    alert.isHeldBack || alert.silencedBy !== undefined ? [] : (toNotice(alert) ?? []),
  );

/** Returns the stored part of an alert. Silences are matched again after a restart. */
const stored = ({ silencedBy: _, ...alert }: Alert) => ({ ...alert, state: withoutClock(alert.state) });
export const rowOf = (alert: Alert) => JSON.stringify(stored(alert));
/** Returns a text that changes when the alert's row must be written again. */
export function versionOf(alert: Alert): string {
  const { state, isHeldBack } = stored(alert);
  return JSON.stringify({ state, isHeldBack });
}

/**
 * Marks silenced alerts in `next`. A firing alert is sent once no silence matches it. A resolution is sent only if the firing
 * notice was sent.
 */
export function withSilences(next: Evaluated, before: Evaluated, silences: Silences): Evaluated {
  const mark = (fingerprint: string, { isHeldBack: _, silencedBy: __, ...alert }: Alert): Alert => {
    if (alert.state.phase === 'pending') return alert;
    const last = before.alerts.get(fingerprint);
    if (alert.state.phase === 'resolved') return wasSent(last) ? alert : { ...alert, isHeldBack: true };
    const silencedBy = silences.reasonFor(alert.labels);
    const isSent = last?.state.phase === 'firing' && wasSent(last);
    return isSent || silencedBy === undefined ? { ...alert, silencedBy } : { ...alert, silencedBy, isHeldBack: true };
  };
  return { ...next, alerts: new Map([...next.alerts].map(([key, alert]) => [key, mark(key, alert)])) };
}
