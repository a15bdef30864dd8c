import { resourceFromAttributes } from '@opentelemetry/resources';
import type { SpanExporter } from '@opentelemetry/sdk-trace';
import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { LifecycleTrace } from '../model/lifecycle-trace.ts';
import { createOtlpExporter, watchExporter } from './exporting.ts';
import { lifecycleSpans, type Origin } from './lifecycle-spans.ts';
import type { TracingOptions } from './options.ts';

/** Traces that wait to be exported, of all accounts: they outlast the process. */
export interface Outbox {
  readonly accounts: readonly string[];
  /** Those of one account, as JSON, by key. */
  read(account: string): Promise<ReadonlyMap<string, string>>;
  remove(account: string, keys: readonly string[]): Promise<void>;
}

export interface LifecycleDeps {
  readonly options: TracingOptions;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
  readonly outbox: Outbox;
  readonly spans: Counter<'about' | 'outcome'>;
  readonly log: Log;
  readonly clock: Clock;
}

/** Exports the lives of messages as traces. */
export interface LifecycleExport {
  /** Sends what waits and then marks it as sent. Rejects with StoreError; what the receiver does not take waits on. */
  run(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** Traces that wait in an account while the receiver takes none; what is older is dropped. */
const MOST_WAITING = 10_000;
/** Traces in one request. */
const BATCH = 100;
/** Milliseconds to leave a receiver alone that took nothing: twice as long each time. */
const PATIENCE = { first: 5000, longest: 300_000 };

const lastTime = ({ events }: LifecycleTrace) => events.reduce((last, { time }) => Math.max(last, time), 0);

/** Whether the receiver took them. */
function send(exporter: SpanExporter, batch: Parameters<SpanExporter['export']>[0], signal: AbortSignal) {
  return new Promise<boolean>(resolve => {
    const onAbort = () => resolve(false);
    signal.addEventListener('abort', onAbort, { once: true });
    exporter.export(batch, ({ code }) => {
      signal.removeEventListener('abort', onAbort);
      resolve(code === 0);
    });
  });
}

/** Rejects with an Error where the environment asks for a protocol that is not there. */
export async function createLifecycleExport(deps: LifecycleDeps): Promise<LifecycleExport> {
  const { options, env, version, outbox, spans, clock } = deps;
  const exporter = watchExporter(await createOtlpExporter(options, env), 'messages', deps);
  const origin: Origin = {
    version,
    resource: resourceFromAttributes({ 'service.name': 'message-delivery', 'telemetry.source': 'event-log' }),
  };
  let pause = 0;
  /** On the monotonic clock. */
  let notBefore = 0;

  async function exportOf(account: string, signal: AbortSignal): Promise<boolean> {
    const waiting = [...(await outbox.read(account))]
      .map(([key, text]) => ({ key, trace: JSON.parse(text) as LifecycleTrace }))
      .sort((a, b) => lastTime(a.trace) - lastTime(b.trace));
    const old = waiting.splice(0, Math.max(0, waiting.length - MOST_WAITING));
    if (old.length > 0) {
      const lost = old.reduce((sum, { trace }) => sum + lifecycleSpans(trace, origin).length, 0);
      spans.inc({ about: 'messages', outcome: 'dropped' }, lost);
      await outbox.remove(
        account,
        old.map(({ key }) => key),
      );
    }
    while (waiting.length > 0 && !signal.aborted) {
      const batch = waiting.splice(0, BATCH);
      const isTaken = await send(
        exporter,
        batch.flatMap(({ trace }) => lifecycleSpans(trace, origin)),
        signal,
      );
      if (!isTaken) return false;
      // Only now: after a crash before this, the same spans are sent once more.
      await outbox.remove(
        account,
        batch.map(({ key }) => key),
      );
    }
    return true;
  }

  return {
    async run(signal) {
      if (clock.monotonic() < notBefore) return;
      for (const account of outbox.accounts) {
        if (signal.aborted) return;
        if (await exportOf(account, signal)) continue;
        pause = Math.min(PATIENCE.longest, Math.max(PATIENCE.first, pause * 2));
        notBefore = clock.monotonic() + pause;
        return;
      }
      pause = 0;
    },
    close: () => exporter.shutdown(),
  };
}
