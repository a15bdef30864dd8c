import type { Secret } from '../../kit/secret.ts';
import { type Notice, timeText } from '../notice.ts';
import { type NotifierDeps, postNotices, type Receiver } from './receiver.ts';

export interface AlertmanagerDeps extends NotifierDeps {
  readonly urls: readonly Secret[];
  /** Milliseconds after which an alert ends unless it is sent again. */
  readonly holdsFor: number;
}

/** Alertmanager's API v2. Firing alerts are repeated with an `endsAt` in the future, so they end if the agent dies. */
export function createAlertmanager(deps: AlertmanagerDeps): readonly Receiver[] {
  const { notifier, urls, now, holdsFor, externalUrl } = deps;

  function toAlert({ labels, annotations, startsAt, endsAt, lasts }: Notice) {
    // Our clock may have been ahead, and was set back: Alertmanager refuses an end before its begin, and waits for one to come.
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
      // The others of the batch are stored all the same.
      const isRefusal = (status: number) => status === 400 || status === 422;
      return postNotices(deps, address, { headers, body, signal }, { isRefusal });
    },
  }));
}
