import type { Secret } from '../../kit/secret.ts';
import { type Notice, timeText } from '../notice.ts';
import { type NotifierDeps, postNotices, type Receiver } from './receiver.ts';

export interface AlertmanagerDeps extends NotifierDeps {
  readonly urls: readonly Secret[];
  /** Time (ms) after which an alert ends unless it is sent again. */
  readonly holdsFor: number;
}

/** Creates a receiver for each Alertmanager (API v2). Alerts are repeated with a future `endsAt`, so they end if the agent dies. */
export function createAlertmanager(deps: AlertmanagerDeps): readonly Receiver[] {
  const { notifier, urls, now, holdsFor, externalUrl } = deps;

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
    wants: 'state',
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
