import type { Counter } from '../kit/counter.ts';
import type { Env } from '../kit/secret.ts';
import type { Source } from '../metrics/family.ts';
import type { Origin } from './otlp-metrics.ts';
import { createQueue } from './queue.ts';
import type { Sender } from './sender.ts';
import { type PushedSeries, type SnapshotDeps, takeSnapshot } from './snapshot.ts';
import { pairsIn } from './target.ts';

/** Queue of metrics for a receiver. Separate loops fill and drain it, so an unresponsive receiver does not delay snapshots. */
export type PushedMetrics = ReturnType<typeof createPushedMetrics>;

interface PushedMetricsDeps extends SnapshotDeps {
  refresh(): Promise<void>;
  readonly items: Counter<'outcome'>;
}

/** Maximum size of the queue (compressed bytes): about ten snapshots of 100,000 series. */
const MAX_BYTES = 16 * 1024 * 1024;

export function createPushedMetrics(deps: PushedMetricsDeps) {
  const { refresh, items } = deps;
  const pushed: PushedSeries = new Map();
  const queue = createQueue({
    maxBytes: MAX_BYTES,
    dropped: count => items.inc({ outcome: 'dropped' }, count),
  });
  return {
    /** Adds a snapshot of the sources. Rejects only when the signal is aborted. */
    async enqueue(sources: readonly Source[], sender: Sender, signal: AbortSignal): Promise<void> {
      await refresh();
      for await (const packet of takeSnapshot(sources, pushed, deps)) {
        signal.throwIfAborted();
        queue.add(await sender.compress(packet));
      }
    },
    /** Sends queued requests until the queue is empty or a request fails. Rejects only when the signal is aborted. */
    send: queue.drain,
  };
}

/** Returns the resource attributes of this agent. OpenTelemetry's variables override the defaults. */
export function resourceOf(
  { OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME }: Env,
  { version, instance }: { readonly version: string; readonly instance: string },
): Origin['resource'] {
  return {
    'service.name': 'delivery-watch',
    'service.version': version,
    'service.instance.id': instance,
    ...Object.fromEntries(pairsIn(OTEL_RESOURCE_ATTRIBUTES)),
    ...(OTEL_SERVICE_NAME ? { 'service.name': OTEL_SERVICE_NAME } : {}),
  };
}
