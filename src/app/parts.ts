import { hostname } from 'node:os';
import type { LoadedConfig } from '../config/load.ts';
import { createSecretValues, type SecretValues } from '../config/secrets.ts';
import type { Bounds } from '../http/bounds.ts';
import { parseListen } from '../http/options.ts';
import type { PeerKey } from '../http/peer.ts';
import type { ReloadFault } from '../http/served.ts';
import type { Clock } from '../kit/clock.ts';
import type { Closing } from '../kit/closing.ts';
import type { Log } from '../kit/log.ts';
import { createProcessMetrics, type ProcessMetrics } from '../metrics/process.ts';
import type { LeaseMeter } from '../metrics/replicas.ts';
import { openStore } from '../store/open.ts';
import { isNotHeld, type Store } from '../store/store.ts';
import { createLog, type ProcessLog } from '../telemetry/log.ts';
import { createTracer, type ProcessTracer } from '../telemetry/tracing.ts';
import { ENDPOINTS } from '../upstream/call.ts';
import { type AccountChanges, type Accounts, openAccounts } from './accounts.ts';
import { createDispatchers, type Dispatchers } from './dispatchers.ts';
import type { Leases } from './holding.ts';
import { withLeaseMetrics } from './lease-metrics.ts';
import { createStoredKey } from './peer-key.ts';
import { openPushMetrics, type PushMetrics } from './push-metrics.ts';
import { replicaUrlOf } from './replica-url.ts';
import { openTraces, type Traces } from './traces.ts';
import { version } from './version.ts';
import { type AgentLog, createAgentLog } from './view/agent-log.ts';

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
}

/** What came of the last reload. `at`: milliseconds since the Unix epoch. */
export interface LastReload {
  readonly at: number;
  /** By the words of the configuration; empty where it was refused. */
  readonly changed: readonly string[];
  /** Why it was refused; empty where it was not. */
  readonly faults: readonly ReloadFault[];
}

/** What every configuration of this process uses. */
export interface Base extends Pick<PartsDeps, 'env' | 'clock' | 'random' | 'backfill'> {
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
  const { createHolding, telling } = await import('./holding.ts');
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

export interface AccountNames {
  /** Of the accounts that run. */
  readonly names: () => readonly string[];
  /** Whether this process has the account; default: all. */
  readonly isHeld?: (account: string) => boolean;
}

/** The accounts with their rounds, and what they speak through. */
export interface Parts {
  readonly traces: Traces;
  readonly pushMetrics: PushMetrics;
  readonly accounts: Accounts;
}

/**
 * Opens what one configuration asks for, and of its accounts those that `isHeld` says. `before`: what runs, and goes on when
 * this rejects.
 */
export async function openParts(
  { config }: Pick<LoadedConfig, 'config'>,
  base: Base,
  { names, isHeld }: AccountNames,
  before?: Parts,
): Promise<{ readonly parts: Parts; readonly change: AccountChanges }> {
  const { process, backfill } = base;
  const traces = await openTraces({ ...base, config, spans: process.spans, accounts: names }, before?.traces);
  // Before the accounts are there: a tracer belongs to the SDK of the moment it is made.
  const instance = `${hostname()}:${parseListen(config.server.listen).port}`;
  const pushMetrics = await openPushMetrics({ ...base, config, instance }, before?.pushMetrics);
  if (!before) traces.take();
  const deps = { ...base, config, requestSeconds: process.requestSeconds, backfill, traceQueue: traces.queue };
  try {
    const { accounts, change } = await openAccounts(deps, isHeld ?? (() => true), before?.accounts);
    return { parts: { traces, pushMetrics, accounts }, change };
  } catch (error) {
    await closeUnlessKept({ traces, pushMetrics }, before);
    throw error;
  }
}

type Sent = Pick<Parts, 'traces' | 'pushMetrics'>;

/** Sends what waits of one, all at the same time: none of the receivers may answer. */
export async function closeSent({ traces, pushMetrics }: Sent): Promise<void> {
  await Promise.all([traces.close(), pushMetrics.close()]);
}

/** Ends the spans and pushed metrics of one configuration, unless they are those of the other, too. */
export async function closeUnlessKept({ traces, pushMetrics }: Sent, other: Sent | undefined): Promise<void> {
  if (traces.kept !== other?.traces.kept) await traces.close();
  if (pushMetrics === other?.pushMetrics) return;
  const goesOn = pushMetrics.kept.pushed === other?.pushMetrics.kept.pushed;
  await (goesOn ? pushMetrics.leave() : pushMetrics.close());
}

/** Waits for accounts that save what they leave to the next process. Never throws. */
export async function settle(
  saving: readonly Promise<void>[],
  { log, holding }: Pick<Base, 'log' | 'holding'>,
): Promise<void> {
  const failures = (await Promise.allSettled(saving)).flatMap(each =>
    each.status === 'rejected' ? [each.reason] : [],
  );
  // What another replica has, it saves; and that the database is away was said.
  const failed = failures.find(error => !isNotHeld(error));
  if (failed === undefined || holding?.isAway()) return;
  log.warn({ error: String(failed) }, 'budget use, data freshness and history could not be stored');
}

/** Base and parts for a run without alerts and auto-cancel; `closing` learns how to close them. */
export async function createParts(loaded: LoadedConfig, deps: PartsDeps, closing: Closing) {
  const base = await openBase(loaded, deps, closing);
  for (const { message, ...place } of loaded.warnings) base.log.warn(place, message);
  const { parts } = await openParts(loaded, base, { names: () => [] });
  const { accounts } = parts;
  closing.add('what is exported', () => closeSent(parts));
  const { all } = accounts;
  closing.add('accounts', () =>
    settle(
      all.map(account => account.close()),
      base,
    ),
  );
  return { accounts: all };
}
