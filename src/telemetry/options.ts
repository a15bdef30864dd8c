import { z } from 'zod';
import { httpUrl } from '../kit/http-url.ts';
import { otlpHeaders } from '../kit/otlp-receiver.ts';

export const logOptions = z.strictObject({
  level: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'], { error: 'must be one of debug, info, warn, error, silent' })
    .default('info')
    .describe('Minimum severity of log lines.'),
  format: z
    .enum(['json', 'text'], { error: 'must be json or text' })
    .default('json')
    .describe('Format on standard error. `json`: one object per line. `text`: human-readable.'),
  deadLetters: z
    .boolean()
    .default(false)
    .describe(
      'Whether a line at level `warn` is logged for each new dead letter, once it is counted in the store. See docs/log.md.',
    ),
});

export type LogOptions = z.output<typeof logOptions>;

const ratio = z.number().min(0).max(1);

export const tracingOptions = z.strictObject({
  enabled: z
    .boolean()
    .default(false)
    .describe('Whether spans are created and exported: one trace per round. See docs/tracing.md.'),
  endpoint: httpUrl
    .default('http://localhost:4318')
    .describe(
      'OTLP/HTTP endpoint for spans, without `/v1/traces`. `OTEL_*` environment variables override this section.',
    ),
  headers: otlpHeaders,
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
