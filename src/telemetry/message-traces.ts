import { type Clock, unlessAborted, withDeadline } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import { identityOf } from '../kit/identity.ts';
import type { Log } from '../kit/log.ts';
import type { Env } from '../kit/secret.ts';
import type { TraceQueue } from '../model/lifecycle-trace.ts';
import { isNotHeld, type Store } from '../store/store.ts';
import type { LifecycleExport } from './lifecycle.ts';
import { isDisabled, type TracingOptions } from './options.ts';
import type { CountedQueue } from './trace-queue.ts';
import { disableTracing, type ProcessTracer } from './tracing.ts';

export interface Traces {
  readonly id: string;
  /** Returns the queue of an account's message traces; undefined if messages are not traced. */
  queue(account: string): TraceQueue | undefined;
  /** Body of the loop that exports message traces; undefined if messages are not traced. Never rejects. */
  readonly exportMessages: ((signal: AbortSignal) => Promise<void>) | undefined;
  activate(): void;
  /** Sends pending spans within `MAX_FLUSH_MS`, message traces first. */
  close(): Promise<void>;
}

interface TracesSettings {
  readonly tracing: TracingOptions;
}

export interface TracesDeps {
  readonly config: TracesSettings;
  readonly env: Env;
  readonly store: Store;
  readonly spans: Counter<'about' | 'outcome'>;
  readonly tracer: ProcessTracer;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
  accounts(): readonly string[];
  readonly leadership?: { isUnavailable(): boolean } | undefined;
  /** Queues by account. They outlive a reload. */
  readonly queues: Map<string, CountedQueue>;
}

/** Store prefix of the message traces that the event collector writes. */
const TRACE_OUTBOX = 'events/outbox/';

/** Time limit of each flush (ms). Unsent spans are dropped; message traces stay in the store. */
const MAX_FLUSH_MS = 3000;

const flush = (work: Promise<void>) =>
  withDeadline(MAX_FLUSH_MS, new AbortController().signal, deadline => unlessAborted(work, deadline)).catch(
    () => undefined,
  );

const isTraced = ({ tracing }: TracesSettings, env: Env) => tracing.enabled && !isDisabled(env);

export const hasLifecycles = (config: TracesSettings, env: Env) =>
  isTraced(config, env) && config.tracing.lifecycle.enabled;

async function openLifecycles(deps: TracesDeps): Promise<LifecycleExport> {
  const { config, store, queues } = deps;
  const { createLifecycleExport } = await import('./lifecycle.ts');
  return createLifecycleExport({
    ...deps,
    options: config.tracing,
    outbox: {
      accounts: deps.accounts,
      read: account => store.scan(account, TRACE_OUTBOX),
      async remove(account, keys) {
        const changes = keys.map(key => ({ key, value: null }));
        await store.commit(account, changes).catch(error => {
          if (!isNotHeld(error)) throw error;
        });
        queues.get(account)?.removed(keys.length);
      },
    },
  });
}

/**
 * Prepares tracing, or returns `before` if its settings are equal. The new settings take effect when `activate` is called.
 * Rejects with an Error if the protocol is not supported.
 */
export async function openTraces(deps: TracesDeps, before?: Traces): Promise<Traces> {
  const { config, env, spans, tracer, log, leadership, queues } = deps;
  const isOn = isTraced(config, env);
  const id = identityOf([isOn, config.tracing]);
  if (before?.id === id) return before;
  const tracesMessages = hasLifecycles(config, env);
  const makeQueue = tracesMessages && (await import('./trace-queue.ts')).createTraceQueue;
  const sdk = isOn
    ? await (await import('./sdk.ts')).prepareSdk({ options: config.tracing, env, spans, log })
    : undefined;
  const lifecycles = tracesMessages ? await openLifecycles(deps) : undefined;
  return {
    id,
    queue(account) {
      if (!makeQueue) return undefined;
      const queue = queues.get(account) ?? makeQueue(account, { spans, log });
      queues.set(account, queue);
      return queue;
    },
    exportMessages:
      lifecycles &&
      (signal =>
        lifecycles.run(signal).catch(error => {
          if (!leadership?.isUnavailable())
            log.warn({ error: String(error) }, 'message traces could not be read or removed');
        })),
    activate() {
      if (sdk) sdk.start();
      else if (before) disableTracing();
      tracer.use(config.tracing.propagate);
    },
    async close() {
      if (lifecycles) await flush(lifecycles.close());
      if (sdk) await flush(sdk.shutdown());
    },
  };
}
