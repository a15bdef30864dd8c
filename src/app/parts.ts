import type { LoadedConfig } from '../config/load.ts';
import type { Bounds } from '../http/bounds.ts';
import type { Clock } from '../kit/clock.ts';
import type { Closing } from '../kit/closing.ts';
import type { Log } from '../kit/log.ts';
import type { Tracer } from '../kit/tracer.ts';
import { accountInfoFamily } from '../metrics/own.ts';
import { createProcessMetrics, type ProcessMetrics } from '../metrics/process.ts';
import { openStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import { createLog } from '../telemetry/log.ts';
import type { CountedQueue } from '../telemetry/trace-queue.ts';
import { createTracer } from '../telemetry/tracing.ts';
import { ENDPOINTS } from '../upstream/call.ts';
import { createLargeBodies } from '../upstream/large-bodies.ts';
import { type Account, openAccount } from './account.ts';
import { createDispatchers } from './dispatchers.ts';
import { version } from './version.ts';

export interface PartsDeps {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  /** Milliseconds of the event log's past to read at an account's very first start. */
  readonly backfill?: number;
  /** Other bounds of what clients may take than usual. */
  readonly bounds?: Partial<Bounds>;
}

/** What every way of running needs: the accounts with their rounds, and what they speak through. */
export interface Parts {
  readonly log: Log;
  readonly process: ProcessMetrics;
  readonly accounts: readonly Account[];
  readonly store: Store;
  readonly tracer: Tracer;
  /** Exports message traces, where that is configured. Rejects with StoreError; then it is tried again. */
  exportLifecycles(): Promise<((signal: AbortSignal) => Promise<void>) | undefined>;
  /** Puts what outlasts the process and belongs to no round into the store. Never throws. */
  save(): Promise<void>;
}

/** Where the collector of events leaves the traces of messages. */
const TRACE_OUTBOX = 'events/outbox/';

/** Milliseconds in which pending spans are sent at shutdown; after that they are dropped. */
const LONGEST_FLUSH = 3000;

async function flush(work: () => Promise<void>, clock: Clock): Promise<void> {
  const ended = new AbortController();
  const deadline = clock.sleep(LONGEST_FLUSH, ended.signal).catch(() => undefined);
  await Promise.race([work(), deadline]);
  // A timer would keep the process from ending.
  ended.abort();
}

/** Whether spans are to be made: asked for, and not forbidden by OpenTelemetry's own switch. */
const isTraced = ({ tracing }: LoadedConfig['config'], env: PartsDeps['env']) =>
  tracing.enabled && env.OTEL_SDK_DISABLED?.toLowerCase() !== 'true';

/** Waits for accounts that save what they leave to the next process. Never throws. */
async function settle(saving: readonly Promise<void>[], log: Log): Promise<void> {
  const failed = (await Promise.allSettled(saving)).find(each => each.status === 'rejected');
  if (failed) log.warn({ error: String(failed.reason) }, 'budget use and data freshness could not be stored');
}

/** Builds the parts that a configuration asks for; `closing` learns how to close them. */
export async function createParts(
  { config, hash, warnings }: LoadedConfig,
  { env, clock, random, backfill }: PartsDeps,
  closing: Closing,
): Promise<Parts> {
  const log = createLog(config.log);
  for (const { message, ...place } of warnings) log.warn(place, message);
  const store = await openStore(config.store);
  closing.add('store', () => store.close());
  const dispatchers = createDispatchers(env);
  closing.add('connections', () => dispatchers.destroy());
  const process = createProcessMetrics({
    version,
    configHash: hash,
    configLoadedAt: clock.now(),
    endpoints: ENDPOINTS,
  });
  // Only here, and after the SDK is started: a tracer belongs to the SDK of the moment it is made.
  const isOn = isTraced(config, env);
  if (isOn) {
    const { startSdk } = await import('../telemetry/sdk.ts');
    const shutdown = await startSdk({ options: config.tracing, env, version, spans: process.spans, log });
    closing.add('spans', () => flush(shutdown, clock));
  }
  let queues: ReadonlyMap<string, CountedQueue> | undefined;
  if (isOn && config.tracing.lifecycle.enabled) {
    const { createTraceQueue } = await import('../telemetry/trace-queue.ts');
    queues = new Map(config.accounts.map(({ name }) => [name, createTraceQueue(name, { spans: process.spans, log })]));
  }
  const deps = {
    config,
    env,
    dispatchers,
    largeBodies: createLargeBodies(),
    accountInfo: accountInfoFamily(config.accounts.map(({ labels }) => labels)),
    requestSeconds: process.requestSeconds,
    store,
    clock,
    random,
    backfill,
    traceQueue: (account: string) => queues?.get(account),
    log,
    tracer: createTracer(version, config.tracing.propagate),
  };
  const accounts = await Promise.all(config.accounts.map(account => openAccount(account, deps)));
  closing.add('accounts', () =>
    settle(
      accounts.map(account => account.close()),
      log,
    ),
  );
  return {
    log,
    process,
    accounts,
    store,
    tracer: deps.tracer,
    save: () =>
      settle(
        accounts.map(account => account.save()),
        log,
      ),
    async exportLifecycles() {
      if (!queues) return undefined;
      const { createLifecycleExport } = await import('../telemetry/lifecycle.ts');
      const lifecycles = await createLifecycleExport({
        options: config.tracing,
        env,
        version,
        outbox: {
          accounts: accounts.map(({ name }) => name),
          read: account => store.scan(account, TRACE_OUTBOX),
          async remove(account, keys) {
            await store.commit(
              account,
              keys.map(key => ({ key, value: null })),
            );
            queues?.get(account)?.removed(keys.length);
          },
        },
        spans: process.spans,
        log,
        clock,
        random,
      });
      closing.add('spans of messages', () => flush(lifecycles.close, clock));
      return lifecycles.run;
    },
  };
}
