import { type Alert, type Evaluated, wasSent } from './alert.ts';
import type { SendLimits, Share } from './send-limits.ts';
import type { Silences } from './silences.ts';

/** What one account sends and leaves out of each rule. */
export function sharesOf({ alerts, beyondCap }: Evaluated): Map<string, Share> {
  const shares = new Map<string, Share>();
  const add = (rule: string, more: Partial<Share>) => {
    const { sent = 0, sentOverflow = 0, leftOut = 0 } = shares.get(rule) ?? {};
    shares.set(rule, {
      sent: sent + (more.sent ?? 0),
      sentOverflow: sentOverflow + (more.sentOverflow ?? 0),
      leftOut: leftOut + (more.leftOut ?? 0),
    });
  };
  for (const { rule, labels, state, isHeldBack, silencedBy } of alerts.values()) {
    if (state.phase !== 'firing') continue;
    const isOverflow = labels.overflow !== undefined;
    if (!isHeldBack) add(rule, isOverflow ? { sentOverflow: 1 } : { sent: 1 });
    else if (silencedBy === undefined) add(rule, { leftOut: isOverflow ? (beyondCap.get(rule) ?? 0) : 1 });
  }
  return shares;
}

/** What decides whether a firing alert is sent. */
export interface SendingDeps {
  readonly silences: Silences;
  readonly limits: SendLimits;
}

/** Gives room for each alert that takes some, while there is any. */
function createRoom(limits: SendLimits): (alert: Alert) => boolean {
  const used = new Map<string, number>();
  return ({ rule, labels }) => {
    const kind = labels.overflow === undefined ? 'alerts' : 'overflow';
    const key = `${kind} ${rule}`;
    const taken = used.get(key) ?? 0;
    if (limits.room(rule)[kind] <= taken) return false;
    used.set(key, taken + 1);
    return true;
  };
}

/** Says of each alert of `next` whether it is silenced or held back. What fires is sent once neither is so, and its end then, too. */
export function withSending(next: Evaluated, before: Evaluated, { silences, limits }: SendingDeps): Evaluated {
  const takeRoom = createRoom(limits);
  const judge = (fingerprint: string, { isHeldBack: _, silencedBy: __, ...alert }: Alert): Alert => {
    if (alert.state.phase === 'pending') return alert;
    const last = before.alerts.get(fingerprint);
    if (alert.state.phase === 'resolved') return wasSent(last) ? alert : { ...alert, isHeldBack: true };
    const silencedBy = silences.reasonFor(alert.labels);
    const isSent = last?.state.phase === 'firing' && wasSent(last);
    if (isSent || (silencedBy === undefined && takeRoom(alert))) return { ...alert, silencedBy };
    return { ...alert, silencedBy, isHeldBack: true };
  };
  return { ...next, alerts: new Map([...next.alerts].map(([key, alert]) => [key, judge(key, alert)])) };
}
