import { z } from 'zod';
import { cronWindow, moment } from '../kit/cron.ts';
import { Duration, DurationOrZero } from '../kit/duration.ts';
import { Secret, secret } from '../kit/secret.ts';
import { LABEL_NAME } from '../kit/text.ts';

export const labelValues = z
  .union([z.string(), z.array(z.string()).min(1, { error: 'must not be empty' })], {
    error: 'must be text or a list of texts; any of them matches',
  })
  .transform(value => (typeof value === 'string' ? [value] : value));

const isAddress = (text: string, isAllowed: (url: URL) => boolean) => {
  const url = URL.parse(text);
  const isPlain = url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password;
  return isPlain && !url.hash && !/\s/.test(text) && isAllowed(url);
};

/** An address is hidden at once: it may hold what lets one in. */
const address = (isAllowed: (url: URL) => boolean, error: string) =>
  z
    .string()
    .refine(text => isAddress(text, isAllowed), { error })
    .transform(text => new Secret(text));

const PLAIN_ADDRESS = 'must be an http or https address without user or fragment';

/** Why text can't be the address that a secret is; undefined when it can. */
export const faultOfAddress = (text: string): string | undefined =>
  isAddress(text, () => true) ? undefined : PLAIN_ADDRESS;

const secretAddress = secret.superRefine((setting, context) => {
  const wrong = 'literal' in setting ? faultOfAddress(setting.literal.reveal()) : undefined;
  if (wrong) context.addIssue({ code: 'custom', message: wrong });
});

const alertmanagerOptions = z.strictObject({
  urls: z
    .array(address(({ search }) => search === '', 'must be an http or https address without user, query or fragment'))
    .min(1, { error: 'must have at least one address' })
    .describe(
      'URLs of all members of a cluster, without `/api/v2`: each gets every alert. Do not name a load balancer.',
    ),
});

const groupLabel = z.string().refine(name => name === '...' || LABEL_NAME.test(name), {
  error: 'must be a label name, or ... alone for all labels',
});

/** Formats of webhooks. `hasSecretUrl`: anyone with the URL may post there. */
export const FORMATS = { alertmanager: { hasSecretUrl: false }, slack: { hasSecretUrl: true } };
export type WebhookFormat = keyof typeof FORMATS;
const FORMAT_NAMES = Object.keys(FORMATS) as [WebhookFormat, ...WebhookFormat[]];

const webhookOptions = z.strictObject({
  url: secretAddress.describe(
    'URL that gets a POST when a group of alerts changes: `{ env: NAME }`, `{ file: PATH }` or the URL itself.',
  ),
  secret: secret
    .nullable()
    .default(null)
    .describe('Signs the requests: `{ env: NAME }`, `{ file: PATH }` or the text itself (works, with a warning).'),
  format: z
    .enum(FORMAT_NAMES, { error: `must be ${FORMAT_NAMES.join(' or ')}` })
    .default('alertmanager')
    .describe('`alertmanager`: Alertmanager’s webhook JSON (version 4); `slack`: a message for an incoming webhook.'),
  groupBy: z
    .array(groupLabel)
    .default(['alertname', 'account'])
    .describe('Labels whose values make a group: a group is told in one notification. `[]`: one group of all alerts.'),
  groupWait: DurationOrZero.prefault('10s').describe(
    'How long a change of a group waits for others, to be told together with them.',
  ),
  repeatEvery: Duration.prefault('4h').describe('When a group that still fires, unchanged, is told again.'),
});

export const silenceOptions = z
  .strictObject({
    match: z
      .record(z.string().regex(LABEL_NAME, { error: 'must be a label name' }), labelValues)
      .refine(match => Object.keys(match).length > 0, { error: 'must have at least one label' })
      .describe('Labels of the alerts that are silenced; all must match, each with one of its values.'),
    from: moment.nullable().default(null).describe('Start, inclusive. Default: at once.'),
    until: moment.nullable().default(null).describe('End, exclusive.'),
    windows: z
      .array(cronWindow)
      .max(100)
      .default([])
      .describe('Silences only while one of these windows is open. Default: all the time.'),
    reason: z.string().min(1).max(200).describe('Reason, shown with the alert.'),
  })
  .refine(({ from, until }) => from === null || until === null || from < until, {
    error: 'must be after from',
    path: ['until'],
  })
  .refine(({ until, windows }) => until !== null || windows.length > 0, {
    error: 'is required, or windows: a silence without end is a rule to remove',
    path: ['until'],
  });

/** Alerts that are not sent for a time. Times: milliseconds since the Unix epoch. */
export type SilenceOptions = z.output<typeof silenceOptions>;

export const HEARTBEAT = 'heartbeat';

export const heartbeatOptions = z.strictObject({
  url: secretAddress.describe(
    'URL that gets a GET: `{ env: NAME }`, `{ file: PATH }` or the URL itself (works, with a warning).',
  ),
  every: Duration.prefault('1m').describe('How often.'),
});

export type HeartbeatOptions = z.output<typeof heartbeatOptions>;

const notifierName = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, { error: 'must be 1 to 64 of A-Z a-z 0-9 _ -' })
  .describe('Value of the label `notifier`; unique.');

export const notifierOptions = z
  .strictObject({
    name: notifierName,
    alertmanager: alertmanagerOptions.optional().describe('Alertmanager 0.16 or newer, through its API v2.'),
    webhook: webhookOptions
      .optional()
      .describe('Any receiver of Alertmanager’s webhook JSON, or of Slack’s incoming webhooks.'),
  })
  .refine(({ alertmanager, webhook }) => (alertmanager === undefined) !== (webhook === undefined), {
    error: 'must have exactly one of alertmanager, webhook',
  });

export type NotifierOptions = z.output<typeof notifierOptions>;
