import { createHmac } from 'node:crypto';
import type { Secret } from '../../kit/secret.ts';
import { type Group, type Grouping, groupKey } from '../group.ts';
import { fingerprintOf, type Notice, timeText } from '../notice.ts';
import type { WebhookFormat } from '../options.ts';
import { type NotifierDeps, postNotices, type Receiver } from './receiver.ts';
import { errorOfSlack, slackBody } from './slack.ts';

export interface WebhookDeps extends NotifierDeps {
  readonly format: WebhookFormat;
  /** The address, which may be a credential itself. Rejects when it can't be had now. */
  readonly url: () => Promise<Secret>;
  /** Signs what is sent; undefined where nothing is signed. Rejects when it can't be had now. */
  readonly secret: (() => Promise<Secret>) | undefined;
  readonly grouping: Grouping;
}

const NO_END = '0001-01-01T00:00:00Z';

type Labels = Readonly<Record<string, string>>;

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

/** The body that Alertmanager 0.22 and newer send (version 4). */
function webhookBody(notices: readonly Notice[], { labels, left }: Group, externalUrl: string, receiver: string) {
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

/** Body of a notification, and the error that a response names although its status is 200, by format. */
const FORMATS: Readonly<
  Record<
    WebhookFormat,
    { readonly bodyOf: typeof webhookBody | typeof slackBody; readonly errorIn?: typeof errorOfSlack }
  >
> = {
  alertmanager: { bodyOf: webhookBody },
  slack: { bodyOf: slackBody, errorIn: errorOfSlack },
};

/** A signature of time and body: the time, in seconds since the Unix epoch, keeps a recorded request from being replayed. */
function signatureOf(secret: Secret, timestamp: number, body: string): string {
  return `sha256=${createHmac('sha256', secret.reveal()).update(`${timestamp}.${body}`).digest('hex')}`;
}

const isRefusal = (status: number) => status >= 400 && status < 500 && status !== 408 && status !== 429;

export function createWebhook(deps: WebhookDeps): Receiver {
  const { notifier, format, url, secret, grouping, now, externalUrl } = deps;

  async function headersOf({ key }: Group, body: string): Promise<Record<string, string>> {
    const timestamp = Math.floor(now() / 1000);
    const signed = secret && {
      'x-delivery-watch-timestamp': String(timestamp),
      'x-delivery-watch-signature': signatureOf(await secret(), timestamp, body),
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
      const { bodyOf, errorIn } = FORMATS[format];
      const body = JSON.stringify(bodyOf(notices, group, externalUrl, notifier));
      let address: string;
      let headers: Record<string, string>;
      try {
        address = (await url()).reveal();
        headers = await headersOf(group, body);
      } catch {
        return { kind: 'failed', why: 'no secret', isDown: true };
      }
      return postNotices(deps, address, { headers, body, signal }, { isRefusal, ...(errorIn && { errorIn }) });
    },
  };
}
