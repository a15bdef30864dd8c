import { type Clock, systemClock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import { identityOf } from '../kit/identity.ts';
import type { Log } from '../kit/log.ts';
import { version } from '../kit/version.ts';
import type { TraceQueue } from '../model/lifecycle-trace.ts';
import { isNotHeld, type Store } from '../store/store.ts';
import type { LifecycleExport } from './lifecycle.ts';
import type { TracingOptions } from './options.ts';
import type { CountedQueue } from './trace-queue.ts';
import { disableTracing, type ProcessTracer } from './tracing.ts';

type Body = (signal: AbortSignal) => Promise<void>;

/** Spans of the agent and of messages, as one configuration asks for them. */
export interface Traces {
  /** What waits of an account's traces; undefined where messages are not traced. */
  queue(account: string): TraceQueue | undefined;
  /** Body of the loop that exports message traces; undefined where they are not exported. Rejects with StoreError; then it is tried again. */
  readonly exportMessages: Body | undefined;
  /** Spans that begin from now on go where this configuration says. */
  take(): void;
  /** Sends what waits, as far as the receiver takes it in time. Message traces first. */
  close(): Promise<void>;
  /** What the next one goes on with. */
  readonly kept: Kept;
}

interface Kept {
  readonly id: string;
  readonly queues: Map<string, CountedQueue>;
}

export interface TracesSettings {
  readonly tracing: TracingOptions;
}

export interface TracesDeps {
  readonly config: TracesSettings;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly store: Store;
  readonly spans: Counter<'about' | 'outcome'>;
  readonly tracer: ProcessTracer;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly log: Log;
  /** Names of those that there are now, whose message traces are exported. */
  accounts(): readonly string[];
  /** Leases of accounts; undefined without replicas. */
  readonly holding?: { held(account: string): boolean; isAway(): boolean } | undefined;
}

/** Where the collector of events leaves the traces of messages. */
const TRACE_OUTBOX = 'events/outbox/';

/** Milliseconds in which pending spans are sent at shutdown; after that they are dropped. */
const LONGEST_FLUSH = 3000;

async function flush(work: () => Promise<void>): Promise<void> {
  const ended = new AbortController();
  // In real time, like the receiver's.
  const deadline = systemClock.sleep(LONGEST_FLUSH, ended.signal).catch(() => undefined);
  await Promise.race([work(), deadline]);
  // A timer would keep the process from ending.
  ended.abort();
}

/** Whether spans are to be made: asked for, and not forbidden by OpenTelemetry's own switch. */
export const isTraced = ({ tracing }: TracesSettings, env: TracesDeps['env']) =>
  tracing.enabled && env.OTEL_SDK_DISABLED?.toLowerCase() !== 'true';

/** Whether messages are traced, too. */
export const hasLifecycles = (config: TracesSettings, env: TracesDeps['env']) =>
  isTraced(config, env) && config.tracing.lifecycle.enabled;

/** The same goes on. */
function goOn(): void {}

async function openLifecycles(deps: TracesDeps, queues: Kept['queues']): Promise<LifecycleExport> {
  const { config, store, holding } = deps;
  // One that has changed hands since the names were asked for: the replica that has it exports what is left.
  const isHeld = (account: string) => holding?.held(account) ?? true;
  const { createLifecycleExport } = await import('./lifecycle.ts');
  return createLifecycleExport({
    ...deps,
    options: config.tracing,
    version,
    outbox: {
      get accounts() {
        return deps.accounts();
      },
      read: async account => (isHeld(account) ? store.scan(account, TRACE_OUTBOX) : new Map()),
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
 * Nothing is changed before `take`. `before`: what is in use until then, and the same where the section has not changed. Rejects
 * with an Error where the environment asks for a protocol that is not there.
 */
export async function openTraces(deps: TracesDeps, before?: Traces): Promise<Traces> {
  const { config, env, spans, tracer, log, holding } = deps;
  const isOn = isTraced(config, env);
  const id = identityOf([isOn, config.tracing]);
  if (before?.kept.id === id) return { ...before, take: goOn };
  const isFirst = before === undefined;
  const queues = before?.kept.queues ?? new Map<string, CountedQueue>();
  const tracesMessages = hasLifecycles(config, env);
  const makeQueue = tracesMessages && (await import('./trace-queue.ts')).createTraceQueue;
  const sdk = isOn
    ? await (await import('./sdk.ts')).prepareSdk({ options: config.tracing, env, version, spans, log })
    : undefined;
  const lifecycles = tracesMessages ? await openLifecycles(deps, queues) : undefined;
  return {
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
          if (!holding?.isAway()) log.warn({ error: String(error) }, 'message traces wait for the store');
        })),
    take() {
      if (sdk) sdk.start();
      else if (!isFirst) disableTracing();
      tracer.use(config.tracing.propagate);
    },
    async close() {
      if (lifecycles) await flush(lifecycles.close);
      if (sdk) await flush(sdk.shutdown);
    },
    kept: { id, queues },
  };
}
