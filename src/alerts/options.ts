import { z } from 'zod';
import { Duration, DurationOrZero } from '../kit/duration.ts';
import { LABEL_NAME } from '../kit/label-name.ts';
import { Secret } from '../kit/secret.ts';

const TAKEN = ['alertname', 'account'];
const PLACEHOLDER = /\{\{\s*\$(?:value|labels\.([a-zA-Z_][a-zA-Z0-9_]*))\s*\}\}/g;

const name = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, {
  error: 'must be a letter or _, and up to 127 letters, digits or _',
});

/** What an alert needs beside its condition. */
export const alertingRule = z.strictObject({
  name: name.describe('Value of the label `alertname`; unique.'),
  for: DurationOrZero.prefault('0s').describe('It fires when its condition has held for so long.'),
  keepFiringFor: DurationOrZero.prefault('0s').describe(
    'It goes on firing for so long when its condition no longer holds.',
  ),
  labels: z
    .record(
      z.string().refine(label => LABEL_NAME.test(label) && !TAKEN.includes(label), {
        error: `must be a label name other than ${TAKEN.join(', ')}`,
      }),
      z.string().refine(text => text !== '' && !text.includes('{{'), { error: 'must be text, without {{' }),
    )
    .default({})
    .describe('Labels to add: `{ severity: warning }`.'),
  annotations: z
    .record(
      z.string().regex(LABEL_NAME, { error: 'must be a label name' }),
      z.string().refine(text => !text.replaceAll(PLACEHOLDER, '').includes('{{'), {
        error: 'may hold {{ $value }} and {{ $labels.NAME }}, and no other {{',
      }),
    )
    .default({})
    .describe('What people are told. `{{ $value }}` and `{{ $labels.NAME }}` stand for what they name.'),
});

export type AlertingRule = z.output<typeof alertingRule>;

/** An annotation of one alert. */
export function expand(text: string, labels: Readonly<Record<string, string>>, value: number): string {
  return text.replaceAll(PLACEHOLDER, (_whole, label?: string) =>
    label === undefined ? String(value) : (labels[label] ?? ''),
  );
}

/** An address is hidden at once: it may hold what lets one in. */
const address = (isAllowed: (url: URL) => boolean, error: string) =>
  z
    .string()
    .refine(
      text => {
        const url = URL.parse(text);
        const isPlain = url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password;
        return isPlain && !url.hash && !/\s/.test(text) && isAllowed(url);
      },
      { error },
    )
    .transform(text => new Secret(text));

export const alertmanagerOptions = z.strictObject({
  urls: z
    .array(address(({ search }) => search === '', 'must be an http or https address without user, query or fragment'))
    .min(1, { error: 'must have at least one address' })
    .describe('Every member of a cluster, without `/api/v2`: each is told everything. No load balancer.'),
});

export const webhookOptions = z.strictObject({
  url: address(() => true, 'must be an http or https address without user or fragment').describe(
    'Gets a POST of JSON as Alertmanager sends it (version 4), once when an alert begins to fire and once when it is resolved.',
  ),
});

/** What a notifier needs of its own beside how it tells. */
export const notifierName = z
  .string()
  .regex(/^[A-Za-z0-9_-]{1,64}$/, { error: 'must be 1 to 64 of A-Z a-z 0-9 _ -' })
  .describe('Value of the label `notifier`; unique.');

export const evaluateEvery = Duration.prefault('15s').describe('How often the conditions are looked at.');
