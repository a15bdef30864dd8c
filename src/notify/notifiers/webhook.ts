import { createHmac } from 'node:crypto';
import type { Secret } from '../../kit/secret.ts';
import { type Group, type Grouping, groupKey } from '../group.ts';
import { fingerprintOf, type Labels, type Notice, timeText } from '../notice.ts';
import { FORMATS, type WebhookFormat } from '../options.ts';
import { errorOfPagerduty, pagerdutyEvent } from './pagerduty.ts';
import { type NotifierDeps, postNotices, type Receiver, type SendResult } from './receiver.ts';
import { errorOfSlack, slackBody } from './slack.ts';

export interface WebhookDeps extends NotifierDeps {
  readonly format: WebhookFormat;
  /** The address, which may be a credential. Rejects if it cannot be read now. */
  readonly url: () => Promise<Secret>;
  /** The key of the receiver, or a secret that signs requests. Rejects if it cannot be read now. */
  readonly secret: (() => Promise<Secret>) | undefined;
  readonly grouping: Grouping | undefined;
}

const NO_END = '0001-01-01T00:00:00Z';

function common([first = {}, ...others]: readonly Labels[]): Labels {
  const shared = Object.entries(first).filter(([name, value]) => others.every(each => each[name] === value));
  return Object.fromEntries(shared);
}

function groupOfOne({ status, labels, startsAt }: Notice): Group {
  return {
    labels: { account: labels.account ?? '', alertname: labels.alertname ?? '' },
    key: `${fingerprintOf(labels)}:${status}:${timeText(startsAt)}`,
    left: 0,
  };
}

/** Returns the body that Alertmanager 0.22 and newer versions send (version 4). */
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

interface Notification {
  readonly notices: readonly Notice[];
  readonly group: Group;
  readonly externalUrl: string;
  readonly notifier: string;
  readonly secret: Secret | undefined;
}

interface Format {
  bodiesOf(notification: Notification): readonly object[];
  /** Returns the error in the body of a response with status 2xx. */
  errorIn?(text: string): string | undefined;
}

const BODIES: Readonly<Record<WebhookFormat, Format>> = {
  alertmanager: { bodiesOf: notification => [webhookBody(notification)] },
  slack: {
    bodiesOf: ({ notices, group, externalUrl }) => [slackBody(notices, group, externalUrl)],
    errorIn: errorOfSlack,
  },
  pagerduty: {
    bodiesOf: ({ notices, externalUrl, secret }) => notices.map(notice => pagerdutyEvent(notice, externalUrl, secret)),
    errorIn: errorOfPagerduty,
  },
};

/** Signs a timestamp (s since the Unix epoch) and a body. The timestamp prevents replays of a recorded request. */
function signatureOf(secret: Secret, timestamp: number, body: string): string {
  return `sha256=${createHmac('sha256', secret.reveal()).update(`${timestamp}.${body}`).digest('hex')}`;
}

const isRefusal = (status: number) => status >= 400 && status < 500 && status !== 408 && status !== 429;

export function createWebhook(deps: WebhookDeps): Receiver {
  const { notifier, format, url, secret: readSecret, grouping, now, externalUrl } = deps;
  const { bodiesOf, errorIn } = BODIES[format];
  const isSigned = FORMATS[format].key === undefined;

  function headersOf({ key }: Group, body: string, secret: Secret | undefined): Record<string, string> {
    const timestamp = Math.floor(now() / 1000);
    const signed = isSigned &&
      secret && {
        'x-delivery-watch-timestamp': String(timestamp),
        'x-delivery-watch-signature': signatureOf(secret, timestamp, body),
      };
    return { 'content-type': 'application/json', 'idempotency-key': key, ...signed };
  }

  return {
    notifier,
    member: 0,
    wants: 'changes',
    grouping,
    async send(notices, signal, given) {
      const [first] = notices;
      if (!first) return { kind: 'accepted' };
      const group = given ?? groupOfOne(first);
      let address: string;
      let secret: Secret | undefined;
      try {
        address = (await url()).reveal();
        secret = await readSecret?.();
      } catch {
        return { kind: 'failed', why: 'no secret', isDown: true };
      }
      let result: SendResult = { kind: 'accepted' };
      const secrets = secret ? [secret.reveal()] : [];
      for (const content of bodiesOf({ notices, group, externalUrl, notifier, secret })) {
        const body = JSON.stringify(content);
        const request = { headers: headersOf(group, body, secret), body, signal };
        const answer = await postNotices(deps, address, request, { isRefusal, errorIn, secrets });
        if (answer.kind === 'failed') return answer;
        if (answer.kind === 'refused') result = answer;
      }
      return result;
    },
  };
}
