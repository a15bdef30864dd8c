import type { Notice } from '../notify/notice.ts';
import type { Silences } from '../notify/silences.ts';
import { type AlertState, withoutClock } from './state.ts';

export interface Alert {
  readonly rule: string;
  /** Its identity, `alertname` and `account` included. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly value: number;
  readonly state: AlertState;
  /** It was silenced from its start on: nothing was sent. */
  readonly isHeldBack?: true | undefined;
  /** Why it is silenced, while it fires and is. */
  readonly silencedBy?: string | undefined;
}

export interface Evaluated {
  readonly alerts: ReadonlyMap<string, Alert>;
  /** Rules with series that could not be judged. */
  readonly unknown: ReadonlySet<string>;
  /** By rule: number of series beyond the cap: their condition holds, but they have no alert of their own. */
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

/** An alert as it outlasts the process; which silence holds, the next one finds out itself. */
const outlasting = ({ silencedBy: _, ...alert }: Alert) => ({ ...alert, state: withoutClock(alert.state) });
export const rowOf = (alert: Alert) => JSON.stringify(outlasting(alert));
/** Equal while a row need not be written anew. */
export function versionOf(alert: Alert): string {
  const { state, isHeldBack } = outlasting(alert);
  return JSON.stringify({ state, isHeldBack });
}

/** Marks silenced alerts in `next`. A firing alert is sent once it is not silenced; its end is sent only then. */
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
