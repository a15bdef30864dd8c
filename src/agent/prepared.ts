import type { Dispatcher } from 'undici';
import { rulesOf, trackingOf } from '../auto-cancel/tracking.ts';
import { schedulesOf } from '../collectors/index.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { AccountSettings, Config } from '../config/schema.ts';
import { identityOf } from '../kit/identity.ts';
import { accountInfoFamily } from '../metrics/own.ts';
import { tracesMessages } from '../telemetry/traces.ts';
import type { AgentBase } from './base.ts';

export interface DesiredAccount {
  readonly settings: AccountSettings;
  /** Hash of all settings that affect polling, including secrets. */
  readonly identity: string;
  readonly dispatcher: Dispatcher;
}

/** Hashes the settings that affect polling. A change of any setting that is not excluded here reopens the account. */
function identityOfReading(settings: AccountSettings, config: Config, env: AgentBase['env']): string {
  const {
    actionToken: _token,
    management: login,
    labels: _labels,
    plan: _plan,
    limits: _limits,
    ...reading
  } = settings;
  const { name, retention, objectives } = reading;
  const { rotateToken: _path, ...paths } = reading.paths;
  const management = paths.account === null ? null : login;
  const { families: _families, ...collect } = reading.collect;
  return identityOf([
    { ...reading, management, paths, collect, retention: retention.dlq, objectives: objectives.onTimeWithin },
    config.staleness,
    schedulesOf(config.schedules, name),
    trackingOf(rulesOf(config, name), collect.dlq.rescanEvery),
    tracesMessages(config.tracing, env),
    config.log.deadLetters,
  ]);
}

/** A validated configuration and its accounts. */
export type Prepared = ReturnType<typeof prepare>;

/** The content of a slot: an account, or the agent-wide part. */
export interface Tenant {
  /** Whether the tenant may continue reading with this configuration. */
  keepsReading(prepared: Prepared): boolean;
  /** Whether the tenant's auto-cancel may continue with this configuration. */
  keepsAutoCancel(prepared: Prepared): boolean;
  isConfigured(prepared: Prepared): boolean;
  /** Applies all settings that do not affect reading. Rejects if a part cannot be opened. */
  configure(prepared: Prepared): Promise<void>;
  stopAutoCancel(): Promise<void>;
  /** Ends the tenant's requests. */
  stop(): Promise<void>;
  /** Rejects with StoreError. */
  save(): Promise<void>;
}

/** Derives the accounts from a configuration. */
export function prepare(loaded: LoadedConfig, { dispatchers, env }: Pick<AgentBase, 'dispatchers' | 'env'>) {
  const { config } = loaded;
  const desired = config.accounts.map((settings): [string, DesiredAccount] => [
    settings.name,
    { settings, identity: identityOfReading(settings, config, env), dispatcher: dispatchers.for(settings.upstream) },
  ]);
  return {
    loaded,
    desired: new Map(desired),
    /** `delivery_account_info`, with labels that depend on all accounts. */
    info: accountInfoFamily(config.accounts.map(({ labels }) => labels)),
  };
}

/** Returns the dispatchers in use, including dispatchers of accounts that still run with earlier settings. */
export const dispatchersOf = ({ desired }: Prepared, running: Iterable<Pick<DesiredAccount, 'dispatcher'>>) =>
  [...desired.values(), ...running].map(({ dispatcher }) => dispatcher);
