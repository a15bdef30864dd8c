import { z } from 'zod';
import { httpUrl } from '../kit/http-url.ts';
import { otlpHeaders } from '../kit/otlp-receiver.ts';

export const logOptions = z.strictObject({
  level: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'], { error: 'must be one of debug, info, warn, error, silent' })
    .default('info')
    .describe('Lowest level that is logged.'),
  format: z
    .enum(['json', 'text'], { error: 'must be json or text' })
    .default('json')
    .describe('Format on standard error. `json`: one object per line; `text`: easier to read.'),
  deadLetters: z
    .boolean()
    .default(false)
    .describe('Whether each new dead letter is logged at level `warn`: see docs/log.md.'),
});

export type LogOptions = z.output<typeof logOptions>;

const ratio = z.number().min(0).max(1);

export const tracingOptions = z.strictObject({
  enabled: z
    .boolean()
    .default(false)
    .describe('Whether a trace of each sampled round is exported: see docs/tracing.md.'),
  endpoint: httpUrl
    .default('http://localhost:4318')
    .describe('OTLP/HTTP endpoint, without `/v1/traces`. `OTEL_*` environment variables override this section.'),
  headers: otlpHeaders,
  sampleRatio: ratio.default(0.1).describe('Share of rounds that are traced, 0 to 1.'),
  propagate: z.boolean().default(false).describe('Whether requests to the service carry the header `traceparent`.'),
  lifecycle: z
    .strictObject({
      enabled: z.boolean().default(false).describe('Whether message lifecycles are exported as traces.'),
      sampleRatio: ratio
        .default(0.05)
        .describe(
          'Share of messages that are traced, 0 to 1, in addition to all failed, cancelled, retried and slowest ones.',
        ),
    })
    .prefault({}),
});

export type TracingOptions = z.output<typeof tracingOptions>;
