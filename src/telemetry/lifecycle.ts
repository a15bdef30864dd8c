import type { SpanExporter } from '@opentelemetry/sdk-trace';
import { createRetry } from '../kit/backoff.ts';
import { type Clock, unlessAborted } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { Env } from '../kit/secret.ts';
import type { LifecycleTrace } from '../model/lifecycle-trace.ts';
import { readRow } from '../store/errors.ts';
import { createOtlpExporter, watchExporter } from './exporting.ts';
import { lifecycleSpans } from './lifecycle-spans.ts';
import type { TracingOptions } from './options.ts';

/** The store's pending traces of all accounts. */
export interface TraceOutbox {
  accounts(): readonly string[];
  /** Returns the traces of one account, as JSON, by key. */
  read(account: string): Promise<ReadonlyMap<string, string>>;
  remove(account: string, keys: readonly string[]): Promise<void>;
}

export interface LifecycleDeps {
  readonly options: TracingOptions;
  readonly env: Env;
  readonly outbox: TraceOutbox;
  readonly spans: Counter<'about' | 'outcome'>;
  readonly log: Log;
  readonly clock: Clock;
  readonly random: () => number;
}

export type LifecycleExport = Awaited<ReturnType<typeof createLifecycleExport>>;

/** Traces per request. */
const BATCH = 100;
const BACKOFF = { first: 5000, longest: 300_000 };

const lastTime = ({ events }: LifecycleTrace) => events.reduce((last, { time }) => Math.max(last, time), 0);

interface Waiting {
  readonly key: string;
  readonly trace: LifecycleTrace;
}

/** Sends spans and resolves to whether the receiver accepted them. */
const send = (exporter: SpanExporter, batch: Parameters<SpanExporter['export']>[0]) =>
  new Promise<boolean>(resolve => exporter.export(batch, ({ code }) => resolve(code === 0)));

/** Creates the export of message traces from the outbox. Rejects with an Error if the protocol is not supported. */
export async function createLifecycleExport(deps: LifecycleDeps) {
  const { options, env, outbox, clock, random } = deps;
  const exporter = watchExporter(await createOtlpExporter(options, env), 'messages', deps);
  const retry = createRetry(BACKOFF, clock, random);
  /** Settles when the most recent batch has been removed from the outbox or has failed. */
  let inFlight: Promise<unknown> = Promise.resolve();

  /**
   * Sends a batch and removes it from the outbox if it is accepted. After a crash between the two steps, the same spans are
   * sent again.
   */
  async function deliver(account: string, batch: readonly Waiting[]): Promise<boolean> {
    const isAccepted = await send(
      exporter,
      batch.flatMap(({ trace }) => lifecycleSpans(trace)),
    );
    if (isAccepted) {
      await outbox.remove(
        account,
        batch.map(({ key }) => key),
      );
    }
    return isAccepted;
  }

  async function exportOf(account: string, signal: AbortSignal): Promise<boolean> {
    const waiting: Waiting[] = [...(await outbox.read(account))]
      .map(([key, text]) => ({ key, trace: readRow<LifecycleTrace>(key, text) }))
      .sort((a, b) => lastTime(a.trace) - lastTime(b.trace));
    while (waiting.length > 0 && !signal.aborted) {
      const delivering = deliver(account, waiting.splice(0, BATCH));
      inFlight = delivering.catch(() => false);
      const isAccepted = await unlessAborted(delivering, signal).catch(error => {
        if (signal.aborted) return false;
        throw error;
      });
      if (!isAccepted) return false;
    }
    return true;
  }

  return {
    /** Sends pending traces and removes accepted ones from the outbox. Rejects with StoreError. */
    async run(signal: AbortSignal): Promise<void> {
      if (!retry.isDue()) return;
      for (const account of outbox.accounts()) {
        if (signal.aborted) return;
        if (!(await exportOf(account, signal))) return retry.failed();
      }
      retry.succeeded();
    },
    /** Waits for the batch in flight, including its removal from the outbox. */
    async close(): Promise<void> {
      await exporter.shutdown();
      await inFlight;
    },
  };
}
