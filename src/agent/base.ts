import { hostname } from 'node:os';
import { type LoadedConfig, withPath } from '../config/load.ts';
import { replicaUrlOf } from '../config/replica-url.ts';
import { createSecretValues } from '../config/secrets.ts';
import { SAMPLE_EVERY } from '../history/recorder.ts';
import type { Bounds } from '../http/bounds.ts';
import type { Closing } from '../kit/closing.ts';
import type { Log } from '../kit/log.ts';
import type { Runtime } from '../kit/runtime.ts';
import { version } from '../kit/version.ts';
import { createLeaseMeter } from '../metrics/leader.ts';
import { accountInfoFamily } from '../metrics/own.ts';
import { createProcessMetrics } from '../metrics/process.ts';
import { createStoreHandle } from '../replicas/session.ts';
import { createInfoSource } from '../status/account-metrics.ts';
import { createNotificationLog, type LastReload } from '../status/agent.ts';
import { openStore } from '../store/open.ts';
import { isNotHeld, type Store } from '../store/store.ts';
import { createLog } from '../telemetry/log.ts';
import { createLogOutput } from '../telemetry/log-output.ts';
import { createTracer } from '../telemetry/tracing.ts';
import { createDispatchers } from '../upstream/dispatcher.ts';
import { ENDPOINTS } from '../upstream/send.ts';
import { type Account, openAccount } from './account.ts';
import { createStoredKey } from './peer-key.ts';

/** Intervals (ms). */
const INTERVALS = { save: 15_000, act: 1000, orders: 1000, sample: SAMPLE_EVERY, retry: 1000 };

export interface PartsDeps extends Pick<Runtime, 'env' | 'clock' | 'random'> {
  readonly bounds?: Partial<Bounds>;
  readonly openStore?: typeof openStore;
  readonly openAccount?: typeof openAccount;
  readonly intervals?: Partial<typeof INTERVALS>;
}

/** Parts that outlive a reload. */
export type AgentBase = Awaited<ReturnType<typeof openBase>>;

/** Opens leadership if several processes share the store. */
async function lead({ lease }: Store, log: Log, deps: PartsDeps) {
  if (!lease) return { leadership: undefined, leaseMeter: undefined };
  const leaseMeter = createLeaseMeter();
  const { Leadership } = await import('../replicas/leadership.ts');
  const leadership = new Leadership({ ...deps, lease, log, renewed: leaseMeter.renewed });
  return { leadership, leaseMeter };
}

/** Opens the parts that outlive a reload and adds them to `closing`. */
export async function openBase({ config, hash, file }: LoadedConfig, deps: PartsDeps, closing: Closing) {
  const { env, clock, random, openAccount } = deps;
  const process = createProcessMetrics({
    version,
    configHash: hash,
    configLoadedAt: clock.now(),
    endpoints: ENDPOINTS,
  });
  const log = createLog(config.log, createLogOutput(process.logLinesDropped));
  const isShared = config.store.kind === 'postgres';
  const candidate = isShared ? { url: replicaUrlOf(config.server, env, hostname()), clock } : undefined;
  const opened = await (deps.openStore ?? openStore)(config.store, { env, ...(candidate ? { candidate } : {}) });
  closing.add('store', () => opened.close());
  const { leadership, leaseMeter } = await lead(opened, log, deps);
  const storeFor = (isRevoked?: () => boolean) => createStoreHandle(opened, leadership, isRevoked);
  const store = storeFor();
  if (leadership) closing.add('lease', leadership.close);
  const dispatchers = createDispatchers(env);
  closing.add('connections', () => dispatchers.destroy());
  const reloads: { last: LastReload | undefined } = { last: undefined };
  return {
    env,
    clock,
    random,
    openAccount,
    intervals: { ...INTERVALS, ...deps.intervals },
    log,
    process,
    store,
    storeFor,
    /** Undefined if the store belongs to this process alone, which then runs everything. */
    leadership,
    leaseMeter,
    /** Key for requests between agents that share the store; undefined if storing it failed at startup. */
    peerKey: await createStoredKey(store, file).catch((error: unknown) => {
      log.warn({ error: String(error) }, 'failed to store the key for requests between agents');
      return undefined;
    }),
    tracer: createTracer(),
    secrets: createSecretValues(config, env),
    dispatchers,
    reloads,
    notified: createNotificationLog(),
  };
}

/** Waits until the saves have ended. Logs their failures. Never rejects. */
export async function waitUntilSaved(
  saving: readonly Promise<void>[],
  { log, leadership }: Pick<AgentBase, 'log' | 'leadership'>,
): Promise<void> {
  const failures = (await Promise.allSettled(saving)).flatMap(each =>
    each.status === 'rejected' ? [each.reason] : [],
  );
  // The next leader continues from committed rows. Database outages are logged elsewhere.
  const failed = failures.find(error => !isNotHeld(error));
  if (failed === undefined || leadership?.isUnavailable()) return;
  log.warn({ error: String(failed) }, 'failed to store budget use, data freshness and history');
}

/** Opens all accounts for a command that runs the rounds itself. */
export async function openAccounts(
  loaded: LoadedConfig,
  deps: PartsDeps,
  closing: Closing,
): Promise<readonly Account[]> {
  const base = await openBase(loaded, deps, closing);
  const { config } = loaded;
  for (const { message, ...place } of loaded.warnings) base.log.warn(place, withPath(place.path, message));
  const info = accountInfoFamily(config.accounts.map(({ labels }) => labels));
  const { requestSeconds } = base.process;
  const accountDeps = { ...base, config, requestSeconds };
  const accounts = await Promise.all(
    config.accounts.map(async settings => {
      const account = await openAccount(settings, accountDeps);
      return { ...account, sources: [...account.sources, createInfoSource(settings, info, account.plan)] };
    }),
  );
  const close = () => accounts.map(account => account.close());
  closing.add('accounts', () => waitUntilSaved(close(), base));
  return accounts;
}
