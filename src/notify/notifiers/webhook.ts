import { createHmac } from 'node:crypto';
import { identityOf } from '../../kit/identity.ts';
import type { Secret } from '../../kit/secret.ts';
import { fingerprintOf, type Grouping, groupLabels, type Notice, timeText } from '../notice.ts';
import { FORMATS, type WebhookFormat } from './formats.ts';
import { type Group, type NotifierDeps, postNotices, type Receiver } from './receiver.ts';

export interface WebhookDeps extends NotifierDeps {
  readonly format: WebhookFormat;
  /** The address, which may be a credential. Rejects if it cannot be read now. */
  readonly url: () => Promise<Secret>;
  /** The key of the receiver, or a secret that signs requests. Rejects if it cannot be read now. */
  readonly secret: (() => Promise<Secret>) | undefined;
  readonly grouping: Grouping;
  /** Headers and body of the format `template`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly template?: string;
}

function groupOfOne({ status, labels, startsAt }: Notice): Group {
  return {
    labels: groupLabels(labels, { by: ['account', 'alertname'] }),
    key: `${fingerprintOf(labels)}:${status}:${timeText(startsAt)}`,
    left: 0,
  };
}

/** Signs a timestamp (s since the Unix epoch) and a body. The timestamp prevents replays of a recorded request. */
function signatureOf(secret: Secret, timestamp: number, body: string): string {
  return `sha256=${createHmac('sha256', secret.reveal()).update(`${timestamp}.${body}`).digest('hex')}`;
}

const isRefusal = (status: number) => status >= 400 && status < 500 && status !== 408 && status !== 429;

export function createWebhook(deps: WebhookDeps): Receiver {
  const { notifier, selects, url, secret: readSecret, grouping, now, externalUrl, headers = {}, template = '' } = deps;
  const { maxAlerts, isSingle = false, key, bodyOf, isError } = FORMATS[deps.format];

  function headersOf(group: Group, body: string, secret: Secret | undefined): Record<string, string> {
    const timestamp = Math.floor(now() / 1000);
    const signed = key === undefined &&
      secret && {
        'x-delivery-watch-timestamp': String(timestamp),
        'x-delivery-watch-signature': signatureOf(secret, timestamp, body),
      };
    return { 'content-type': 'application/json', 'idempotency-key': group.key, ...headers, ...signed };
  }

  return {
    notifier,
    member: 0,
    selects,
    maxAlerts,
    grouping: isSingle ? { ...grouping, by: ['...'], wait: 0 } : grouping,
    repeats: !isSingle,
    isMerging: false,
    identity: async () => identityOf([deps.format, headers, await url(), await readSecret?.()]),
    async send(notices, signal, given) {
      const [first] = notices;
      if (!first) return { kind: 'ok', answer: 'nothing to send' };
      const group = given ?? groupOfOne(first);
      let address: string;
      let secret: Secret | undefined;
      try {
        address = (await url()).reveal();
        secret = await readSecret?.();
      } catch {
        return { kind: 'retry', answer: 'no secret', isDown: true, isUnsent: true };
      }
      const body = bodyOf({ notices, group, externalUrl, notifier, secret, template });
      const request = { headers: headersOf(group, body, secret), body, signal };
      const secrets = [...(secret ? [secret.reveal()] : []), ...Object.values(headers)];
      return postNotices(deps, address, request, { isRefusal, isError, secrets });
    },
  };
}
