import { fingerprintOf, groupLabels, type Labels, type Notice } from './notice.ts';
import type { Receiver } from './notifiers/receiver.ts';
import type { SentLog } from './sent-log.ts';

/** The alert states, as the rules evaluate them. */
export interface AlertStates {
  /** Returns firing and recently resolved alerts, including silenced ones. */
  notices(): readonly Notice[];
  /** Whether the states of an account are loaded or the account is not configured. If so, an alert without a state has ended. */
  isKnown(account: string): boolean;
}

/** The alerts of one group that concern a receiver. */
export interface ComparedGroup {
  readonly labels: Labels;
  /** Alerts with a state that the receiver has not accepted. */
  readonly changed: Notice[];
  /** Alerts for which the receiver has accepted the latest state. */
  readonly unchanged: Notice[];
}

interface ComparedWith {
  readonly receiver: Pick<Receiver, 'selects' | 'grouping'>;
  readonly idOf: (labels: Labels) => string;
  readonly log: SentLog;
  /** Identity of the receiver now; undefined while its secret cannot be read. */
  readonly identity: string | undefined;
  /** Start times of resolved alerts that are repeated, by fingerprint. */
  readonly repeated: ReadonlyMap<string, number>;
  readonly now: number;
}

export type Comparison = Readonly<ReturnType<typeof compare>>;

/** Selects the alerts for a receiver, groups them, and compares them with the log. */
export function compare({ notices, isKnown }: AlertStates, own: ComparedWith) {
  const { receiver, idOf, log, identity, repeated, now } = own;
  const { grouping } = receiver;
  const states = new Map(notices().map(notice => [fingerprintOf(notice.labels), notice] as const));
  const groups = new Map<string, ComparedGroup>();
  function groupOf(id: string, labels: Labels): ComparedGroup {
    const known = groups.get(id);
    if (known) return known;
    const group = { labels: groupLabels(labels, grouping), changed: [], unchanged: [] };
    groups.set(id, group);
    return group;
  }
  for (const [fingerprint, notice] of states) {
    const id = idOf(notice.labels);
    const sent = log.find(id, fingerprint);
    const { status, startsAt, labels } = notice;
    if (status === 'firing' && receiver.selects(labels)) {
      const isSure = sent && sent.receiver !== '';
      const isSent = sent?.startsAt === startsAt && (identity === undefined || sent.receiver === identity);
      if (isSure && (isSent || notice.isSuppressed))
        groupOf(id, labels).unchanged.push(isSent ? notice : { ...notice, startsAt: sent.startsAt });
      else if (!notice.isSuppressed) groupOf(id, labels).changed.push(notice);
    } else if (sent) {
      const endsAt = notice.endsAt ?? now;
      groupOf(id, labels).changed.push({ ...notice, status: 'resolved', startsAt: sent.startsAt, endsAt });
    } else if (repeated.get(fingerprint) === startsAt) groupOf(id, labels).unchanged.push(notice);
  }
  for (const [id, fingerprint, { labels, startsAt, summary, receiver: to }] of log.alerts()) {
    if (states.has(fingerprint)) continue;
    const notice = { labels, annotations: summary === undefined ? {} : { summary }, startsAt };
    const group = groupOf(id, labels);
    if (isKnown(labels.account ?? '')) group.changed.push({ ...notice, status: 'resolved', endsAt: now });
    else if (to !== '') group.unchanged.push({ ...notice, status: 'firing', isSuppressed: true });
  }
  return { groups, states };
}

export interface Item {
  readonly id: string;
  readonly notice: Notice;
  /** Whether the request contains the complete group, so that its next repetition is due after `repeatEvery`. */
  readonly isWhole: boolean;
}

/** A request, and the number of the group's alerts that it omits. */
export interface DueRequest {
  readonly labels: Labels;
  readonly items: readonly Item[];
  readonly left: number;
}

/** Splits alerts into requests. Stops when the requests contain the first `unsent` alerts. */
export function split(labels: Labels, all: readonly Item[], maxAlerts: number, unsent: number): readonly DueRequest[] {
  const requests: DueRequest[] = [];
  for (let at = 0; at < Math.max(unsent, Math.min(1, all.length)); at += maxAlerts) {
    const items = all.slice(at, at + maxAlerts);
    requests.push({ labels, items, left: all.length - items.length });
  }
  return requests;
}
