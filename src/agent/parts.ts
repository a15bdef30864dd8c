import { hostname } from 'node:os';
import type { LoadedConfig } from '../config/load.ts';
import { createSecretValues, type SecretValues } from '../config/secrets.ts';
import { SAMPLE_EVERY } from '../history/recorder.ts';
import type { Bounds } from '../http/bounds.ts';
import type { PeerKey } from '../http/peer.ts';
import type { Clock } from '../kit/clock.ts';
import type { Closing } from '../kit/closing.ts';
import type { Log } from '../kit/log.ts';
import { version } from '../kit/version.ts';
import { accountInfoFamily } from '../metrics/own.ts';
import { createProcessMetrics, type ProcessMetrics } from '../metrics/process.ts';
import type { LeaseMeter } from '../metrics/replicas.ts';
import type { Leases } from '../replicas/holding.ts';
import { withLeaseMetrics } from '../replicas/lease-metrics.ts';
import type { LastReload } from '../status/agent.ts';
import { type AgentLog, createAgentLog } from '../status/agent-log.ts';
import { openStore } from '../store/open.ts';
import { isNotHeld, type Store } from '../store/store.ts';
import { createLog, type ProcessLog } from '../telemetry/log.ts';
import { createTracer, type ProcessTracer } from '../telemetry/tracing.ts';
import { ENDPOINTS } from '../upstream/call.ts';
import { createDispatchers, type Dispatchers } from '../upstream/dispatchers.ts';
import { type Account, openAccount } from './account.ts';
import { createInfoSource } from './account-metrics.ts';
import { createStoredKey } from './peer-key.ts';
import { replicaUrlOf } from './replica-url.ts';

/** Milliseconds between two runs. */
export interface Intervals {
  /** Budget use, freshness and histories are saved. */
  readonly save: number;
  /** Auto-cancel of an account checks for due work. */
  readonly act: number;
  /** Operators' orders and the brake are read. */
  readonly orders: number;
  /** Each account adds a sample to its history. */
  readonly sample: number;
  /** Accounts that could not be opened are checked for a retry. */
  readonly retry: number;
}

const INTERVALS: Intervals = { save: 15_000, act: 1000, orders: 1000, sample: SAMPLE_EVERY, retry: 1000 };

export interface PartsDeps {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  /** Milliseconds of the event log's past to read at an account's very first start. */
  readonly backfill?: number;
  /** Other bounds of what clients may take than usual. */
  readonly bounds?: Partial<Bounds>;
  /** Opens another store than the configuration's. */
  readonly openStore?: typeof openStore;
  /** Opens accounts in another way, in tests. */
  readonly openAccount?: typeof openAccount;
  /** Other intervals than usual, in tests. */
  readonly intervals?: Partial<Intervals>;
}

/** What every configuration of this process uses. */
export interface Base extends Pick<PartsDeps, 'env' | 'clock' | 'random' | 'backfill' | 'openAccount'> {
  readonly intervals: Intervals;
  readonly log: ProcessLog;
  readonly process: ProcessMetrics;
  readonly store: Store;
  /** Which accounts this replica holds; undefined where the agent is alone, and all are its own. */
  readonly holding: Leases | undefined;
  /** Undefined where the store belongs to this process alone. */
  readonly leases: LeaseMeter | undefined;
  /** For requests between agents of the store; undefined if the store could not be written at the start. */
  readonly peerKey: PeerKey | undefined;
  readonly tracer: ProcessTracer;
  readonly secrets: SecretValues;
  readonly dispatchers: Dispatchers;
  /** Undefined before the first. */
  readonly reloads: { last: LastReload | undefined };
  readonly agentLog: AgentLog;
}

/** The store, and which accounts this process holds where replicas share it. */
async function hold(store: Store, { accounts }: LoadedConfig['config'], log: Log, deps: PartsDeps) {
  const { replicas } = store;
  if (!replicas) return { store, holding: undefined };
  const { createHolding, telling } = await import('../replicas/holding.ts');
  const holding = createHolding({ ...deps, replicas, accounts: accounts.map(({ name }) => name), log });
  return { store: telling(store, holding), holding };
}

async function openPeerKey(store: Store, log: Log): Promise<PeerKey | undefined> {
  try {
    return await createStoredKey(store);
  } catch (error) {
    log.warn({ error: String(error) }, 'the key for requests between agents could not be stored');
    return undefined;
  }
}

/** `closing` learns how to close it. */
export async function openBase({ config, hash }: LoadedConfig, deps: PartsDeps, closing: Closing): Promise<Base> {
  const log = createLog(config.log);
  const { env, clock } = deps;
  const isShared = config.store.kind === 'postgres';
  const replica = isShared ? { url: replicaUrlOf(config.server, env, hostname()), clock, log } : undefined;
  const stored = await (deps.openStore ?? openStore)(config.store, { env, ...(replica ? { replica } : {}) });
  const { store: opened, leases } = withLeaseMetrics(stored, clock);
  closing.add('store', () => opened.close());
  const { store, holding } = await hold(opened, config, log, deps);
  if (holding) closing.add('leases', holding.close);
  const dispatchers = createDispatchers(deps.env);
  closing.add('connections', () => dispatchers.destroy());
  const configLoadedAt = deps.clock.now();
  const process = createProcessMetrics({ version, configHash: hash, configLoadedAt, endpoints: ENDPOINTS });
  const tracer = createTracer(version, config.tracing.propagate);
  return {
    ...deps,
    intervals: { ...INTERVALS, ...deps.intervals },
    log,
    process,
    store,
    holding,
    leases,
    peerKey: await openPeerKey(store, log),
    tracer,
    secrets: createSecretValues(config, deps.env),
    dispatchers,
    reloads: { last: undefined },
    agentLog: createAgentLog(),
  };
}

/** Waits for accounts that save what they leave to the next process. Never throws. */
export async function settle(
  saving: readonly Promise<void>[],
  { log, holding }: Pick<Base, 'log' | 'holding'>,
): Promise<void> {
  const failures = (await Promise.allSettled(saving)).flatMap(each =>
    each.status === 'rejected' ? [each.reason] : [],
  );
  // The new holder of an account saves it. An unavailable database is logged elsewhere.
  const failed = failures.find(error => !isNotHeld(error));
  if (failed === undefined || holding?.isAway()) return;
  log.warn({ error: String(failed) }, 'budget use, data freshness and history could not be stored');
}

/** Opens the accounts of a configuration for a command that runs rounds by itself. `closing` closes what was opened. */
export async function openAccounts(
  loaded: LoadedConfig,
  deps: PartsDeps,
  closing: Closing,
): Promise<readonly Account[]> {
  const base = await openBase(loaded, deps, closing);
  const { config } = loaded;
  for (const { message, ...place } of loaded.warnings) base.log.warn(place, message);
  const info = accountInfoFamily(config.accounts.map(({ labels }) => labels));
  const { requestSeconds } = base.process;
  const accounts = await Promise.all(
    config.accounts.map(async settings => {
      const account = await openAccount(settings, {
        ...base,
        config,
        requestSeconds,
        backfill: base.backfill,
        traceQueue: () => undefined,
      });
      return { ...account, sources: [...account.sources, createInfoSource(settings, info, account.plan)] };
    }),
  );
  closing.add('accounts', () =>
    settle(
      accounts.map(account => account.close()),
      base,
    ),
  );
  return accounts;
}
