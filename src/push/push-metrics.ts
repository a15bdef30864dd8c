import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import type { Source } from '../metrics/family.ts';
import type { Origin } from './otlp-metrics.ts';
import { createQueue } from './queue.ts';
import type { Sender } from './sender.ts';
import { type Pushed, type SnapshotDeps, takeSnapshot } from './snapshot.ts';
import type { Env } from './target.ts';

/** Metrics on their way to a receiver. Two loops add and send them, so that a receiver that does not answer delays no snapshot. */
export type PushedMetrics = ReturnType<typeof createPushedMetrics>;

interface PushedMetricsDeps extends SnapshotDeps {
  readonly clock: Pick<Clock, 'now'>;
  refresh(): Promise<void>;
  readonly items: Counter<'outcome'>;
}

/** Compressed bytes that wait for a receiver which does not take them: about ten times the last note of 100,000 series. */
const MOST_BYTES = 16 * 1024 * 1024;

export function createPushedMetrics(deps: PushedMetricsDeps) {
  const { refresh, items } = deps;
  const pushed: Pushed = new Map();
  const queue = createQueue({
    mostBytes: MOST_BYTES,
    dropped: count => items.inc({ outcome: 'dropped' }, count),
  });
  return {
    /** Adds a snapshot of the sources to the queue. Rejects only when the signal is aborted. */
    async note(sources: readonly Source[], sender: Sender, signal: AbortSignal): Promise<void> {
      await refresh();
      for await (const packet of takeSnapshot(sources, pushed, deps)) {
        signal.throwIfAborted();
        queue.add(await sender.packed(packet));
      }
    },
    /** Sends the queue as far as the receiver accepts it. Rejects only when the signal is aborted. */
    send: queue.drain,
  };
}

/** `name=value` pairs, percent-encoded, as OpenTelemetry's environment has them. */
function attributesIn(text: string): Record<string, string> {
  const pairs = text.split(',').flatMap((pair): [string, string][] => {
    const [, name, value = ''] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
    if (name === undefined) return [];
    try {
      return [[name, decodeURIComponent(value)]];
    } catch {
      return [];
    }
  });
  return Object.fromEntries(pairs);
}

/** Who pushes: as OpenTelemetry's environment says, else this program and its instance. */
export function resourceOf(
  { OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME }: Env,
  { version, instance }: { readonly version: string; readonly instance: string },
): Origin['resource'] {
  return {
    'service.name': 'delivery-watch',
    'service.version': version,
    'service.instance.id': instance,
    ...attributesIn(OTEL_RESOURCE_ATTRIBUTES ?? ''),
    ...(OTEL_SERVICE_NAME ? { 'service.name': OTEL_SERVICE_NAME } : {}),
  };
}
