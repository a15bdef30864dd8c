import {
  collectDefaultMetrics,
  Gauge,
  Counter as PromCounter,
  Histogram as PromHistogram,
  Registry,
} from 'prom-client';
import type { Counter, Histogram } from '../kit/counter.ts';
import { type Family, formatLe, type Sample, type Source } from './family.ts';

/** Metrics from prom-client. */
export type ProcessMetrics = ReturnType<typeof createProcessMetrics>;

export interface ProcessInfo {
  readonly version: string;
  /** Hash of the configuration, which reveals differences within a fleet. */
  readonly configHash: string;
  readonly configLoadedAt: number;
  /** Values of the label `endpoint` with series from startup on. */
  readonly endpoints: readonly string[];
}

/** Gauges that `promtool check metrics` rejects because their names end in _total. */
const REFUSED = /^nodejs_active_.*_total$/;

/** Properties of prom-client's metrics that its types omit. */
interface PromMetric extends Omit<Family, 'labels'> {
  readonly labelNames: readonly string[];
}

interface PromValue {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly metricName?: string;
}

const SUFFIXES = ['_bucket', '_sum', '_count'] as const;

function toSample({ value, labels, metricName }: PromValue, name: string): Sample {
  const suffix = SUFFIXES.find(suffix => metricName === name + suffix);
  const texts = Object.fromEntries(
    Object.entries(labels).map(([label, value]) => [
      label,
      label === 'le' ? formatLe(value === '+Inf' ? Number.POSITIVE_INFINITY : Number(value)) : String(value),
    ]),
  );
  return { labels: texts, value, ...(suffix ? { suffix } : {}) };
}

export function createProcessMetrics(info: ProcessInfo) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const gauge = (name: string, help: string, value: number, labels: Record<string, string> = {}) => {
    const set = new Gauge({ name, help, labelNames: Object.keys(labels), registers });
    set.set(labels, value);
    return set;
  };
  gauge('delivery_watch_build_info', 'Versions of delivery-watch and Node.js; always 1.', 1, {
    version: info.version,
    node_version: process.version,
  });
  const configInfo = gauge('delivery_watch_config_info', 'Digest of the configuration in use; always 1.', 1, {
    hash: info.configHash,
  });
  const lastReload = gauge(
    'delivery_watch_config_last_reload_successful',
    'Whether the last configuration load succeeded (1) or failed (0). After a failed reload, the previous configuration stays active.',
    1,
  );
  const lastSuccess = gauge(
    'delivery_watch_config_last_reload_success_timestamp_seconds',
    'Time of the last successful configuration load, even if the configuration had not changed.',
    info.configLoadedAt / 1000,
  );
  const requestSeconds = new PromHistogram({
    name: 'delivery_watch_api_request_duration_seconds',
    help: 'Duration of requests to the service, for all accounts. Each retry counts as a request.',
    labelNames: ['endpoint'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers,
  });
  for (const endpoint of info.endpoints) requestSeconds.zero({ endpoint });
  const spans = new PromCounter({
    name: 'delivery_watch_spans_total',
    help: 'Spans by outcome. failed: not accepted by the receiver. dropped: the queue was full, or the traced message was not tracked to its end.',
    labelNames: ['outcome'],
    registers,
  });
  for (const outcome of ['exported', 'failed', 'dropped']) spans.inc({ outcome }, 0);
  const logLinesDropped = new PromCounter({
    name: 'delivery_watch_log_lines_dropped_total',
    help: 'Log lines that could not be written to standard error: the disk was full, the reader had ended, or the reader was 4 MB behind.',
    registers,
  });

  const exposed = registry.getMetricsAsArray().filter(({ name }) => !REFUSED.test(name)) as unknown as PromMetric[];
  const names = new Set(exposed.map(({ name }) => name));
  let samples: ReadonlyMap<string, readonly Sample[]> = new Map();
  async function refresh(): Promise<void> {
    const metrics = (await registry.getMetricsAsJSON()).filter(({ name }) => names.has(name));
    samples = new Map(
      metrics.map(({ name, values }) => [name, (values as PromValue[]).map(value => toSample(value, name))]),
    );
  }
  return {
    requestSeconds: requestSeconds as Histogram<'endpoint'>,
    spans: spans as Counter<'outcome'>,
    logLinesDropped: (lines: number): void => logLinesDropped.inc(lines),
    configRead: (isValid: boolean): void => lastReload.set(Number(isValid)),
    /** `at`: ms since the Unix epoch. */
    configLoaded(hash: string, at: number): void {
      configInfo.reset();
      configInfo.set({ hash }, 1);
      lastSuccess.set(at / 1000);
      lastReload.set(1);
    },
    /** Reads the current values, which the source exposes until the next call. */
    refresh,
    source: {
      families: exposed.map(({ name, help, type, labelNames }) => ({
        name,
        help,
        // prom-client has no type `info`.
        type: name.endsWith('_info') ? 'info' : type,
        labels: labelNames,
      })),
      revision: () => samples,
      samples: () => samples,
    } satisfies Source,
  };
}
