import { enabledRounds } from '../collectors/index.ts';
import type { AccountSettings } from '../config/schema.ts';
import type { SecretValues } from '../config/secrets.ts';
import type { Histogram } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { Runtime } from '../kit/runtime.ts';
import type { SecretSetting } from '../kit/secret.ts';
import { limitLookups } from '../lookup/limit.ts';
import { type AccountMeter, createAccountMeter, knownRequests } from '../metrics/own.ts';
import type { Leadership } from '../replicas/leadership.ts';
import { whileLeading } from '../replicas/session.ts';
import { createTracer } from '../telemetry/tracing.ts';
import type { Reader } from '../upstream/api.ts';
import { createBudget } from '../upstream/budget.ts';
import { createClient } from '../upstream/client.ts';
import type { Dispatchers } from '../upstream/dispatcher.ts';
import { REQUEST_OUTCOMES } from '../upstream/errors.ts';
import { createMissingLists } from '../upstream/missing-lists.ts';
import { addressesOf } from '../upstream/options.ts';
import { ENDPOINTS } from '../upstream/send.ts';
import { createServiceClock } from '../upstream/service-clock.ts';
import { tokenSource } from '../upstream/token.ts';
import { createWriter } from '../upstream/writer.ts';
import type { StoredAccount } from './account-rows.ts';

const KNOWN = knownRequests(ENDPOINTS, REQUEST_OUTCOMES);

export interface ClientDeps extends Runtime {
  readonly dispatchers: Pick<Dispatchers, 'for'>;
  readonly requestSeconds: Histogram<'endpoint'>;
  readonly secrets: Pick<SecretValues, 'of'>;
  /** Undefined if no other process uses the store. */
  readonly leadership?: Pick<Leadership, 'remaining' | 'confirm'> | undefined;
}

/**
 * Creates the client of an account, which counts requests and enforces the budget. `before`: state stored by an earlier
 * process; `counted`: counters from before a reload.
 */
export function createAccountClient(
  settings: AccountSettings,
  before: StoredAccount,
  counted: AccountMeter | undefined,
  { env, dispatchers, requestSeconds, clock, random, log: agentLog, tracer, secrets, leadership }: ClientDeps,
) {
  const { name, token, management, paths, region, upstream, collect } = settings;
  const collectors = [...enabledRounds(collect).keys()];
  const meter = createAccountMeter({ ...KNOWN, collectors }, counted);
  const onWait = (seconds: number) => meter.budgetWait.inc({}, seconds);
  const ownBudget = whileLeading(createBudget(settings.budget, clock, onWait, before.spent), leadership);
  const budget = limitLookups(ownBudget, settings.budget, clock);
  const addresses = addressesOf(settings);
  const hosts = new Set([addresses.base, addresses.regional].map(address => new URL(address).host));
  const log = agentLog.child({ host: [...hosts].join(', ') });
  let { tokenRejected } = before;
  let isTokenKnown = false;
  function onTokenRejected(isRejected: boolean): void {
    if (isRejected) log.error({ account: name }, 'the service rejects the token; it is retried every minute');
    else if (tokenRejected) log.info({ account: name }, 'the service accepts the token again');
    tokenRejected = isRejected;
    isTokenKnown = true;
  }
  const { timeout } = upstream;
  const common = { addresses, budget, dispatcher: dispatchers.for(upstream), timeout, clock, tracer };
  const timed = { ...meter, seconds: requestSeconds };
  const serviceClock = createServiceClock(clock);
  const missingLists = createMissingLists(before.lists);
  const client = createClient({
    ...common,
    serviceClock,
    missingLists,
    eventsPath: paths.events,
    flowControlKeyPath: paths.flowControlKey,
    token: tokenSource(token, env),
    management:
      management && paths.account !== null
        ? { ...management, password: tokenSource(management.password, env), path: paths.account, region }
        : undefined,
    meter: timed,
    random,
    secrets: () => secrets.of(name),
    onTokenRejected,
  });
  return {
    budget,
    meter,
    log,
    at: client.at,
    /** Creates a writer that uses the same budget. Only auto-cancel may use the writer, because auto-cancel keeps a journal. */
    createWriter: (action: SecretSetting) => createWriter({ ...common, token: tokenSource(action, env), meter: timed }),
    /** Returns whether the last conclusive token check, maybe by an earlier process, failed; undefined before the first. */
    isTokenRejected: () => tokenRejected,
    isTokenKnown: () => isTokenKnown,
    serviceClock,
    spent: meter.spent,
    /** Returns the lists that the service has returned, even empty ones. */
    lists: missingLists.listed,
  };
}

const quiet: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => quiet };

/** Creates a reader with a separate budget, without log, traces and metrics. `timeout`: limits the account's timeout (ms). */
export function openQuietReader(
  settings: AccountSettings,
  deps: Pick<ClientDeps, 'env' | 'dispatchers' | 'clock' | 'random' | 'secrets'>,
  timeout: number,
): Reader {
  const upstream = { ...settings.upstream, timeout: Math.min(settings.upstream.timeout, timeout) };
  const quietDeps = { ...deps, requestSeconds: { observe() {} }, log: quiet, tracer: createTracer() };
  return createAccountClient({ ...settings, upstream }, {}, undefined, quietDeps).at('look');
}
