import { z } from 'zod';
import { Secret } from '../kit/secret.ts';

export const logOptions = z.strictObject({
  level: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'], { error: 'must be one of debug, info, warn, error, silent' })
    .default('info')
    .describe('Minimum severity of log lines.'),
  format: z
    .enum(['json', 'text'], { error: 'must be json or text' })
    .default('json')
    .describe('Format on standard error. `json`: one object per line. `text`: human-readable.'),
});

export type LogOptions = z.output<typeof logOptions>;

const ratio = z.number().min(0).max(1);

const otlpUrl = z.string().refine(
  text => {
    const url = URL.parse(text);
    return url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#\s]/.test(text);
  },
  { error: 'must be an http or https address without user, query or fragment' },
);

/** Hidden at once: most of what is sent along is a key. Undici and Node.js refuse anything else in a header. */
const headerValue = z.union(
  [
    z.strictObject({ env: z.string().min(1) }),
    z
      .string()
      .regex(/^[\t\x20-\x7e]*$/, { error: 'must be printable ASCII characters' })
      .transform(text => new Secret(text)),
  ],
  { error: 'must be { env: NAME } or the value itself, printable ASCII characters' },
);

export type HeaderSetting = z.output<typeof headerValue>;

export const tracingOptions = z.strictObject({
  enabled: z
    .boolean()
    .default(false)
    .describe('Whether spans are created and exported: one trace per round. See docs/tracing.md.'),
  endpoint: otlpUrl
    .default('http://localhost:4318')
    .describe(
      'OTLP/HTTP endpoint for spans, without `/v1/traces`. `OTEL_*` environment variables override this section.',
    ),
  headers: z
    .record(z.string().regex(/^[\w!#$%&'*+.^`|~-]+$/, { error: 'must be the name of a header' }), headerValue)
    .default({})
    .describe('Headers of the export requests, such as an API key: `{ env: NAME }` or the value itself.'),
  sampleRatio: ratio.default(0.1).describe('Share of rounds, 0 to 1, whose traces are exported.'),
  propagate: z.boolean().default(false).describe('Whether requests to the service carry the header `traceparent`.'),
  lifecycle: z
    .strictObject({
      enabled: z
        .boolean()
        .default(false)
        .describe('Whether the lifecycle of messages is exported as traces, rebuilt from the event log.'),
      sampleRatio: ratio
        .default(0.05)
        .describe(
          'Share of messages, 0 to 1, whose traces are exported, in addition to all failed, cancelled, retried and slowest ones.',
        ),
    })
    .prefault({})
    .describe('Message traces.'),
});

export type TracingOptions = z.output<typeof tracingOptions>;

/** Why a header can't be sent now; undefined when it can. */
export function faultOfHeader(
  setting: HeaderSetting,
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  if (setting instanceof Secret) return undefined;
  const text = env[setting.env];
  if (text === undefined) return `the environment variable ${setting.env} is not set`;
  return /^[\t\x20-\x7e]*$/.test(text)
    ? undefined
    : `the environment variable ${setting.env} must be printable ASCII characters`;
}
