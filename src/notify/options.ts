import { z } from 'zod';
import { cronWindow, timeWithZone } from '../kit/cron.ts';
import { Duration, DurationOrZero } from '../kit/duration.ts';
import { EntryName } from '../kit/option.ts';
import { headerSettings, Secret, secret } from '../kit/secret.ts';
import { LABEL_NAME } from '../kit/text.ts';
import { FORMATS, type WebhookFormat } from './notifiers/formats.ts';
import { templateError } from './notifiers/template.ts';
import { SEVERITIES } from './notifiers/words.ts';

export { FORMATS };

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

/** An address may contain credentials, so it is parsed into a Secret. */
const address = (isAllowed: (url: URL) => boolean, error: string) =>
  z
    .string()
    .refine(text => isAddress(text, isAllowed), { error })
    .transform(text => new Secret(text));

const PLAIN_ADDRESS = 'must be an http or https address without user or fragment';

/** Returns why text is not a valid secret address, or undefined if it is valid. */
export const addressError = (text: string): string | undefined =>
  isAddress(text, () => true) ? undefined : PLAIN_ADDRESS;

const secretAddress = secret.superRefine((setting, context) => {
  const wrong = 'literal' in setting ? addressError(setting.literal.reveal()) : undefined;
  if (wrong) context.addIssue({ code: 'custom', message: wrong });
});

const alertmanagerOptions = z.strictObject({
  urls: z
    .array(
      address(
        ({ search, pathname }) => search === '' && !/\/api\/v[12](\/alerts)?\/*$/i.test(pathname),
        'must be an http or https address without user, query, fragment and /api/v2 (the agent adds /api/v2)',
      ),
    )
    .min(1, { error: 'must have at least one address' })
    .describe(
      'URLs of all members of a cluster, without `/api/v2`. Each member gets every alert, so do not use a load balancer.',
    ),
});

const groupLabel = z.string().refine(name => name === '...' || LABEL_NAME.test(name), {
  error: 'must be a label name, or ... alone for all labels',
});

const FORMAT_NAMES = Object.keys(FORMATS) as [WebhookFormat, ...WebhookFormat[]];

const webhookOptions = z
  .strictObject({
    url: secretAddress
      .optional()
      .describe(
        'URL to which alerts are sent with POST: `{ env: NAME }`, `{ file: PATH }` or the URL itself. All formats except `pagerduty` require it.',
      ),
    secret: secret.nullable().default(null).describe('Key for signing requests, or the routing key for `pagerduty`.'),
    headers: headerSettings.describe(
      'Headers for the format `template`. Each value is a text or `{ env: NAME }`. Default content type: application/json.',
    ),
    body: z
      .string()
      .default('')
      .describe(
        'Body for the format `template`. It may contain `{{ title }}`, `{{ text }}`, `{{ status }}`, `{{ severity }}` and `{{ url }}`, which are escaped for JSON.',
      ),
    format: z
      .enum(FORMAT_NAMES, { error: `must be one of ${FORMAT_NAMES.join(', ')}` })
      .default('alertmanager')
      .describe(
        `${Object.entries(FORMATS)
          .map(([name, { about }]) => `\`${name}\`: ${about}`)
          .join('; ')}.`,
      ),
    groupBy: z
      .array(groupLabel)
      .default(['alertname', 'account'])
      .describe(
        'Alerts with the same values of these labels are sent as one notification. `[]`: all alerts together. Not for `pagerduty`.',
      ),
    groupWait: DurationOrZero.prefault('10s').describe(
      'How long changes of a group are collected before they are sent. Not for `pagerduty`.',
    ),
    repeatEvery: Duration.prefault('4h').describe(
      'Interval at which an unchanged firing group is sent again. A refused alert is also retried after this time.',
    ),
  })
  .transform(({ url, ...options }, context) => {
    const { url: known, key } = FORMATS[options.format];
    const reject = (option: string, message: string) => context.addIssue({ code: 'custom', path: [option], message });
    if (!url && known === undefined)
      reject('url', 'is required: must be { env: NAME }, { file: PATH } or the URL itself');
    if (options.secret === null && key !== undefined) reject('secret', `is required: ${key}`);
    const { body, headers } = options;
    if (options.format === 'template') {
      const type = Object.keys(headers).some(name => name.toLowerCase() === 'content-type');
      const wrong = body === '' ? 'is required by the format template' : templateError(body, !type);
      if (wrong) reject('body', wrong);
    } else if (body !== '' || Object.keys(headers).length > 0) {
      reject(body === '' ? 'headers' : 'body', 'needs format: template');
    }
    return { ...options, url: url ?? { literal: new Secret(known ?? '') } };
  });

const labelMatch = z.record(z.string().regex(LABEL_NAME, { error: 'must be a label name' }), labelValues);

export const silenceOptions = z
  .strictObject({
    match: labelMatch
      .refine(match => Object.keys(match).length > 0, { error: 'must have at least one label' })
      .describe('Labels of the silenced alerts, each with its possible values. All labels must match.'),
    from: timeWithZone.nullable().default(null).describe('Start, inclusive. Default: immediately.'),
    until: timeWithZone.nullable().default(null).describe('End, exclusive. Required if there are no `windows`.'),
    windows: z
      .array(cronWindow)
      .max(100)
      .default([])
      .describe('The silence applies only while one of these windows is open. Default: always.'),
    reason: z.string().min(1).max(200).describe('Reason for the silence, shown with the alert.'),
  })
  .refine(({ from, until }) => from === null || until === null || from < until, {
    error: 'must be after from',
    path: ['until'],
  })
  .refine(({ until, windows }) => until !== null || windows.length > 0, {
    error: 'is required if there are no windows; to silence alerts permanently, turn off their rule',
    path: ['until'],
  });

/** A period without notifications for matching alerts. Times: milliseconds since the Unix epoch. */
export type SilenceOptions = z.output<typeof silenceOptions>;

export const HEARTBEAT = 'heartbeat';

export const heartbeatOptions = z.strictObject({
  url: secretAddress.describe('URL to request with GET: `{ env: NAME }` or `{ file: PATH }`.'),
  every: Duration.prefault('1m').describe('Interval between requests.'),
});

export type HeartbeatOptions = z.output<typeof heartbeatOptions>;

export const notifierOptions = z
  .strictObject({
    name: EntryName.describe('Unique name, used as the label `notifier`.'),
    severity: z
      .enum(SEVERITIES, { error: `must be one of ${SEVERITIES.join(', ')}` })
      .default('info')
      .describe('Lowest severity that is sent. An alert without a known severity counts as `warning`.'),
    match: labelMatch
      .default({})
      .describe(
        'Labels of the alerts to send, each with its possible values. All labels must match. Default: all alerts.',
      ),
    alertmanager: alertmanagerOptions
      .optional()
      .describe('Sends alerts to Alertmanager 0.16 or newer, through its API v2.'),
    webhook: webhookOptions.optional().describe('Sends HTTP requests in one of several formats.'),
  })
  .refine(({ alertmanager, webhook }) => (alertmanager === undefined) !== (webhook === undefined), {
    error: 'must have exactly one of alertmanager, webhook',
  });

export type NotifierOptions = z.output<typeof notifierOptions>;
