import { z } from 'zod';
import { Duration } from '../kit/duration.ts';
import { otlpHeaders, otlpUrl } from '../kit/otlp-receiver.ts';

const endpoint = otlpUrl.default('http://localhost:4318');

/** OpenTelemetry's words. */
export const HISTOGRAMS = ['explicit_bucket_histogram', 'base2_exponential_bucket_histogram'] as const;
export type Histograms = (typeof HISTOGRAMS)[number];

/** The section `push`: what is sent to an OTLP receiver, for setups in which nothing scrapes. */
export const pushOptions = z.strictObject({
  metrics: z
    .strictObject({
      enabled: z.boolean().default(false).describe('Whether all metrics are sent, as /metrics shows them.'),
      endpoint: endpoint.describe('OTLP/HTTP endpoint for metrics, without `/v1/metrics`.'),
      headers: otlpHeaders,
      every: Duration.prefault('60s').describe('Interval between two exports.'),
      histograms: z
        .enum(HISTOGRAMS)
        .default('explicit_bucket_histogram')
        .describe(
          'How histograms are sent: with the buckets that the text formats of `/metrics` have, or with base2_exponential_bucket_histogram, of which Prometheus makes native histograms. `OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION` overrides it.',
        ),
    })
    .prefault({})
    .describe('Metrics.'),
});
