import type { Secret } from '../../kit/secret.ts';
import { type Notice, timeText } from '../notice.ts';
import { type Post, type Receiver, statusOf, toldBy } from './index.ts';

export interface AlertmanagerDeps {
  readonly notifier: string;
  /** Addresses of every member of the cluster. */
  readonly urls: readonly Secret[];
  readonly post: Post;
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number;
  /** Milliseconds after which an alert is over when it is not told again. */
  readonly holdsFor: number;
  /** Where people find out more; empty for nowhere. */
  readonly generatorUrl: string;
}

/**
 * Alertmanager's API v2: an alert that fires is told again and again, with an end in the future that moves on, so that it
 * ends by itself should the agent fall silent; a resolved one with the end that it had.
 */
export function createAlertmanager(deps: AlertmanagerDeps): readonly Receiver[] {
  const { notifier, urls, post, now, holdsFor, generatorUrl } = deps;

  function toAlert({ labels, annotations, startsAt, endsAt, lasts }: Notice) {
    return {
      labels,
      annotations,
      startsAt: timeText(startsAt),
      endsAt: timeText(endsAt ?? now() + (lasts ?? holdsFor)),
      ...(generatorUrl === '' ? {} : { generatorURL: generatorUrl }),
    };
  }

  return urls.map((url, member) => ({
    notifier,
    member,
    wants: 'state',
    async tell(notices, signal) {
      const headers = { 'content-type': 'application/json' };
      const body = JSON.stringify(notices.map(toAlert));
      const answer = await statusOf(post, `${url.reveal().replace(/\/+$/, '')}/api/v2/alerts`, {
        headers,
        body,
        signal,
      });
      // The others of the batch are stored all the same.
      return toldBy(answer, status => status === 400 || status === 422);
    },
  }));
}
