import type { Dispatcher } from 'undici';
import { identityOfTracking, rulesOf } from '../auto-cancel/callbacks.ts';
import { schedulesOf } from '../collectors/index.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { identityOf } from '../kit/identity.ts';
import type { Family } from '../metrics/family.ts';
import { accountInfoFamily } from '../metrics/own.ts';
import type { Receivers } from '../notify/receivers.ts';
import type { Alerting } from '../rules/alerting.ts';
import { hasLifecycles, type Traces } from '../telemetry/message-traces.ts';
import type { AccountSettings } from './account-client.ts';
import type { Exporting } from './exporting.ts';
import type { AgentBase } from './parts.ts';

export interface DesiredAccount {
  readonly settings: AccountSettings;
  /** Hash of all settings that affect polling, including secrets. */
  readonly identity: string;
  readonly dispatcher: Dispatcher;
}

/** Hashes the settings that affect polling. A setting that is not excluded here reopens the account when it changes. */
function identityOfReading(settings: AccountSettings, config: Config, env: AgentBase['env']): string {
  const { actionToken: _token, management: _login, labels: _labels, limits: _limits, ...reading } = settings;
  const { name, retention, objectives } = reading;
  const { rotateToken: _path, ...paths } = reading.paths;
  const { families: _families, ...collect } = reading.collect;
  const lifecycles = hasLifecycles(config, env) && config.tracing.lifecycle;
  return identityOf([
    { ...reading, paths, collect, retention: retention.dlq, objectives: objectives.onTimeWithin },
    config.staleness,
    schedulesOf(config.schedules, name),
    identityOfTracking(rulesOf(config, name), collect.dlq.rescanEvery),
    lifecycles,
    config.log.deadLetters,
  ]);
}

/** A validated configuration and its process-wide parts. */
export interface Prepared {
  readonly loaded: LoadedConfig;
  readonly desired: ReadonlyMap<string, DesiredAccount>;
  /** `delivery_account_info`, whose labels depend on all accounts. */
  readonly info: Family;
  readonly receivers: Receivers;
  readonly traces: Traces;
}

interface PrepareDeps {
  readonly base: Pick<AgentBase, 'dispatchers' | 'env'>;
  readonly alerting: Pick<Alerting, 'prepare'>;
  readonly exporting: Pick<Exporting, 'prepare'>;
}

/** Creates the process-wide parts and reuses unchanged ones from `before`. Rejects if a secret or file is missing. */
export async function prepare(
  loaded: LoadedConfig,
  { base: { dispatchers, env }, alerting, exporting }: PrepareDeps,
  before?: Prepared,
): Promise<Prepared> {
  const { config } = loaded;
  const desired = config.accounts.map((settings): [string, DesiredAccount] => [
    settings.name,
    { settings, identity: identityOfReading(settings, config, env), dispatcher: dispatchers.for(settings.upstream) },
  ]);
  const info = accountInfoFamily(config.accounts.map(({ labels }) => labels));
  const isSame = before && JSON.stringify(before.info) === JSON.stringify(info);
  const receivers = alerting.prepare(config);
  const traces = await exporting.prepare(config);
  return { loaded, desired: new Map(desired), info: isSame ? before.info : info, receivers, traces };
}

/** Returns the dispatchers in use, including those of accounts that still run with earlier settings. */
export const dispatchersOf = ({ desired }: Prepared, running: Iterable<Pick<DesiredAccount, 'dispatcher'>>) =>
  [...desired.values(), ...running].map(({ dispatcher }) => dispatcher);
