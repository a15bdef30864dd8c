import { z } from 'zod';
import { Duration } from '../kit/duration.ts';
import { httpUrl } from '../kit/http-url.ts';
import { otlpHeaders } from '../kit/otlp-receiver.ts';

const endpoint = httpUrl.default('http://localhost:4318');

/** Options for pushing metrics to an OTLP receiver, for setups without a scraper. */
export const pushOptions = z.strictObject({
  metrics: z
    .strictObject({
      enabled: z.boolean().default(false).describe('Whether the metrics of `/metrics` are sent.'),
      endpoint: endpoint.describe('OTLP/HTTP endpoint, without `/v1/metrics`.'),
      headers: otlpHeaders,
      every: Duration.prefault('60s').describe('Interval between exports.'),
    })
    .prefault({}),
});

/** Durations are in milliseconds. */
export type PushOptions = z.output<typeof pushOptions>;
