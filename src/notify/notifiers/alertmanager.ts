import { identityOf } from '../../kit/identity.ts';
import type { Secret } from '../../kit/secret.ts';
import { fingerprintOf, groupKey, type Labels, type Notice, timeText } from '../notice.ts';
import { type BodyFormat, type Notification, type NotifierDeps, postNotices, type Receiver } from './receiver.ts';

export interface AlertmanagerDeps extends NotifierDeps {
  readonly urls: readonly Secret[];
  /** Time (ms) after which an alert ends unless it is sent again. */
  readonly holdsFor: number;
}

/** Interval (ms) at which unchanged alerts are sent again. */
export const REPEAT_EVERY = 60_000;

/** Creates a receiver for each Alertmanager (API v2). Alerts are repeated with a future `endsAt`, so they end if the agent dies. */
export function createAlertmanager(deps: AlertmanagerDeps): readonly Receiver[] {
  const { notifier, urls, now, holdsFor, externalUrl, selects } = deps;

  function toAlert({ labels, annotations, startsAt, endsAt, lasts }: Notice) {
    // If our clock was set back, times may be in the future. Alertmanager rejects an end before the start, and a future end has no
    // effect yet.
    const past = (at: number) => timeText(Math.min(at, now()));
    return {
      labels,
      annotations,
      startsAt: past(startsAt),
      endsAt: endsAt === undefined ? timeText(now() + (lasts ?? holdsFor)) : past(endsAt),
      ...(externalUrl === '' ? {} : { generatorURL: externalUrl }),
    };
  }

  return urls.map((url, member) => ({
    notifier,
    member,
    selects,
    grouping: { by: ['account'], wait: 0, repeatEvery: REPEAT_EVERY },
    maxAlerts: 64,
    repeats: true,
    isMerging: true,
    identity: async () => identityOf([url]),
    send(notices, signal) {
      const headers = { 'content-type': 'application/json' };
      const body = JSON.stringify(notices.map(toAlert));
      const address = `${url.reveal().replace(/\/+$/, '')}/api/v2/alerts`;
      // Alertmanager stores the valid alerts of a rejected batch.
      const isRefusal = (status: number) => status === 400 || status === 422;
      return postNotices(deps, address, { headers, body, signal }, { isRefusal });
    },
  }));
}

const NO_END = '0001-01-01T00:00:00Z';

function common([first = {}, ...others]: readonly Labels[]): Labels {
  const shared = Object.entries(first).filter(([name, value]) => others.every(each => each[name] === value));
  return Object.fromEntries(shared);
}

/** Returns the body that Alertmanager 0.22 and newer versions send to webhooks (version 4). */
function webhookBody({ notices, group: { labels, left }, externalUrl, notifier: receiver }: Notification) {
  const alerts = notices.map(({ status, labels, annotations, startsAt, endsAt, lasts }) => {
    const end = endsAt ?? (lasts === undefined ? undefined : startsAt + lasts);
    return {
      status,
      labels,
      annotations,
      startsAt: timeText(startsAt),
      endsAt: end === undefined ? NO_END : timeText(end),
      generatorURL: externalUrl,
      fingerprint: fingerprintOf(labels),
    };
  });
  return {
    version: '4',
    groupKey: groupKey(labels),
    truncatedAlerts: left,
    status: alerts.some(({ status }) => status === 'firing') ? 'firing' : 'resolved',
    receiver,
    groupLabels: labels,
    commonLabels: common(notices.map(({ labels }) => labels)),
    commonAnnotations: common(notices.map(({ annotations }) => annotations)),
    externalURL: externalUrl,
    alerts,
  };
}

export const alertmanagerWebhook: BodyFormat = {
  about: 'Alertmanager’s webhook JSON (version 4)',
  maxAlerts: 250,
  bodyOf: notification => JSON.stringify(webhookBody(notification)),
};
