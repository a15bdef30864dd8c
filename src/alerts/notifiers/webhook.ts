import { createHmac } from 'node:crypto';
import type { Secret } from '../../kit/secret.ts';
import { fingerprintOf, type Notice, sorted, timeText } from '../notice.ts';
import { type NotifierDeps, postNotices, type Receiver } from './receiver.ts';

export interface WebhookDeps extends NotifierDeps {
  readonly url: Secret;
  /** Signs what is sent; undefined where nothing is signed. Rejects when it can't be had now. */
  readonly secret: (() => Promise<Secret>) | undefined;
}

/** What Alertmanager writes where there is no end. */
const NO_END = '0001-01-01T00:00:00Z';

/** The body that Alertmanager 0.22 and newer send (version 4), of a group of one alert. */
function webhookBody(receiver: string, notice: Notice, externalUrl: string): string {
  const { status, labels, annotations, startsAt, endsAt, lasts } = notice;
  const end = endsAt ?? (lasts === undefined ? undefined : startsAt + lasts);
  const groupLabels = { account: labels.account ?? '', alertname: labels.alertname ?? '' };
  const group = sorted(groupLabels).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return JSON.stringify({
    version: '4',
    groupKey: `{}:{${group.join(', ')}}`,
    truncatedAlerts: 0,
    status,
    receiver,
    groupLabels,
    commonLabels: labels,
    commonAnnotations: annotations,
    externalURL: externalUrl,
    alerts: [
      {
        status,
        labels,
        annotations,
        startsAt: timeText(startsAt),
        endsAt: end === undefined ? NO_END : timeText(end),
        generatorURL: externalUrl,
        fingerprint: fingerprintOf(labels),
      },
    ],
  });
}

/** A signature of time and body: the time, in seconds since the Unix epoch, keeps a recorded request from being replayed. */
function signatureOf(secret: Secret, timestamp: number, body: string): string {
  return `sha256=${createHmac('sha256', secret.reveal()).update(`${timestamp}.${body}`).digest('hex')}`;
}

export function createWebhook({ notifier, url, secret, post, now, externalUrl }: WebhookDeps): Receiver {
  async function headersOf(notice: Notice, body: string): Promise<Record<string, string>> {
    const { status, labels, startsAt } = notice;
    const timestamp = Math.floor(now() / 1000);
    const signed = secret && {
      'x-delivery-watch-timestamp': String(timestamp),
      'x-delivery-watch-signature': signatureOf(await secret(), timestamp, body),
    };
    return {
      'content-type': 'application/json',
      'idempotency-key': `${fingerprintOf(labels)}:${status}:${timeText(startsAt)}`,
      ...signed,
    };
  }

  return {
    notifier,
    member: 0,
    wants: 'changes',
    async send(notices, signal) {
      const [notice] = notices;
      if (!notice) return { kind: 'accepted' };
      const body = webhookBody(notifier, notice, externalUrl);
      let headers: Record<string, string>;
      try {
        headers = await headersOf(notice, body);
      } catch {
        return { kind: 'failed', why: 'no secret', isDown: true };
      }
      const isRefusal = (status: number) => status >= 400 && status < 500 && status !== 408 && status !== 429;
      return postNotices(post, url.reveal(), { headers, body, signal }, isRefusal);
    },
  };
}
