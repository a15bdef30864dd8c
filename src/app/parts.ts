import type { LoadedConfig } from '../config/load.ts';
import type { Clock } from '../kit/clock.ts';
import type { Closing } from '../kit/closing.ts';
import type { Log } from '../kit/log.ts';
import { accountInfoFamily } from '../metrics/own.ts';
import { createProcessMetrics, type ProcessMetrics } from '../metrics/process.ts';
import { createMemoryStore } from '../store/memory.ts';
import { createLog } from '../telemetry/log.ts';
import { createTracer } from '../telemetry/tracing.ts';
import { ENDPOINTS } from '../upstream/call.ts';
import { type Account, createAccount } from './account.ts';
import { createDispatchers } from './dispatchers.ts';
import { version } from './version.ts';

export interface PartsDeps {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
}

/** What every way of running needs: the accounts with their rounds, and what they speak through. */
export interface Parts {
  readonly log: Log;
  readonly process: ProcessMetrics;
  readonly accounts: readonly Account[];
}

/** Builds the parts that a configuration asks for; `closing` learns how to close them. */
export async function createParts(
  { config, hash, warnings }: LoadedConfig,
  { env, clock, random }: PartsDeps,
  closing: Closing,
): Promise<Parts> {
  const log = createLog(config.log);
  for (const { message, ...place } of warnings) log.warn(place, message);
  const store = createMemoryStore();
  closing.add('store', () => store.close());
  const dispatchers = createDispatchers(env);
  closing.add('connections', () => dispatchers.destroy());
  const process = createProcessMetrics({
    version,
    configHash: hash,
    configLoadedAt: clock.now(),
    endpoints: ENDPOINTS,
  });
  const deps = {
    config,
    env,
    dispatchers,
    accountInfo: accountInfoFamily(config.accounts.map(({ labels }) => labels)),
    requestSeconds: process.requestSeconds,
    store,
    clock,
    random,
    log,
    tracer: createTracer(version),
  };
  const accounts = await Promise.all(config.accounts.map(account => createAccount(account, deps)));
  return { log, process, accounts };
}
