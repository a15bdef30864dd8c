import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import type { Source } from '../metrics/family.ts';
import type { Origin } from './otlp-metrics.ts';
import { createQueue } from './queue.ts';
import type { Sender } from './sender.ts';
import { type Pushed, type SnapshotDeps, takeSnapshot } from './snapshot.ts';
import type { Env } from './target.ts';

/** All metrics on their way to a receiver. They are noted and sent by two loops: one that does not answer holds up no note. */
export interface PushedMetrics {
  /** Notes everything that the sources say now. Rejects only when the signal is aborted. */
  note(sources: readonly Source[], sender: Sender, signal: AbortSignal): Promise<void>;
  /** Sends what waits, as far as the receiver takes it. Rejects only when the signal is aborted. */
  send(sender: Sender, signal: AbortSignal): Promise<void>;
}

export interface PushedMetricsDeps extends SnapshotDeps {
  readonly clock: Pick<Clock, 'now'>;
  /** Reads the process's own numbers before they are noted. */
  refresh(): Promise<void>;
  readonly items: Counter<'outcome'>;
}

/** Compressed bytes that wait for a receiver which does not take them: about ten times the last note of 100,000 series. */
const MOST_BYTES = 16 * 1024 * 1024;

export function createPushedMetrics(deps: PushedMetricsDeps): PushedMetrics {
  const { refresh, items } = deps;
  const pushed: Pushed = new Map();
  const queue = createQueue({
    mostBytes: MOST_BYTES,
    dropped: count => items.inc({ outcome: 'dropped' }, count),
  });
  return {
    async note(sources, sender, signal) {
      await refresh();
      for await (const packet of takeSnapshot(sources, pushed, deps)) {
        signal.throwIfAborted();
        queue.add(await sender.packed(packet));
      }
    },
    send: (sender, signal) => queue.drain(sender, signal),
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
