import { isDeciding } from '../collectors/index.ts';
import type { Clock } from '../kit/clock.ts';
import type { AccountStatus } from '../model/status.ts';
import type { Holding } from '../replicas/holding.ts';
import type { Store } from '../store/store.ts';
import { NO_ACCOUNT } from '../store/store.ts';
import { tokenSource } from '../upstream/token.ts';
import { createHeartbeat, type Health, type HeartbeatDeps } from './heartbeat.ts';
import type { HeartbeatOptions } from './options.ts';

/** What is known of accounts by which the heartbeat is judged. */
export interface HeartbeatAccount {
  readonly name: string;
  status(): AccountStatus;
  /** Whether the service has accepted or rejected the token since the process started. */
  isTokenKnown(): boolean;
  isTokenRejected(): boolean | undefined;
}

export interface AgentHeartbeatDeps extends Omit<HeartbeatDeps, 'url' | 'health'> {
  readonly config: { readonly heartbeat: HeartbeatOptions | null };
  readonly env: Readonly<Record<string, string | undefined>>;
  accounts(): readonly HeartbeatAccount[];
  configured(): readonly string[];
  readonly store: Pick<Store, 'commit' | 'replicas' | 'valuesOf'>;
  readonly holding?: Pick<Holding, 'held' | 'remaining' | 'sharing'> | undefined;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

const KEY = 'heartbeat';
const MOST_NAMED = 5;

/** What is wrong with an account; `unread` while its data was not read yet, which is no fault. */
function faultOf({ name, status, isTokenKnown, isTokenRejected }: HeartbeatAccount): string | undefined {
  if (isTokenRejected() === true) return isTokenKnown() ? `the token of ${name} is rejected` : UNREAD;
  const rounds = status().collectors.flatMap(({ collector, rounds }) =>
    rounds.filter(({ round }) => isDeciding(collector, round)).map(round => ({ collector, ...round })),
  );
  const stale = rounds.find(({ stale }) => stale);
  if (stale) return `${stale.collector}/${stale.round} of ${name} is stale`;
  return rounds.some(({ dataAt, idle }) => dataAt === undefined && idle !== 'not_due') ? UNREAD : undefined;
}

const UNREAD = 'unread';

/** How all accounts fare; undefined while one of them was not read yet and nothing is known to be wrong. */
export const healthOf = (accounts: readonly HeartbeatAccount[]): Health | undefined =>
  healthBy(accounts.flatMap(account => faultOf(account) ?? []));

function healthBy(faults: readonly string[]): Health | undefined {
  const known = faults.filter(fault => fault !== UNREAD);
  if (known.length === 0) return faults.length > 0 ? undefined : { isWell: true };
  const rest = known.length > MOST_NAMED ? ` and ${known.length - MOST_NAMED} more` : '';
  return { isWell: false, why: `${known.slice(0, MOST_NAMED).join(', ')}${rest}` };
}

/** Row of an account in which the replica that holds it says how it fares; each time in other words. */
const REPORT = 'heartbeat';

interface Report {
  /** Milliseconds since the Unix epoch by its holder's clock, which may be another's. */
  readonly at: number;
  readonly fault?: string | undefined;
}

/** What the replicas say of the accounts that they hold, as the one sees it that speaks for all. */
function createReports({ accounts, configured, store, holding, clock, config }: AgentHeartbeatDeps) {
  const { every = 0 } = config.heartbeat ?? {};
  /** By account: what was said last, and when that was new, on the monotonic clock. */
  const seen = new Map<string, { readonly text: string | undefined; readonly since: number }>();
  // A replica that takes an account over has so much time to say something of it.
  const silence = 3 * every + 2 * (store.replicas?.leaseTime ?? 0);

  function judge(name: string, text: string | undefined): string | undefined {
    const now = clock.monotonic();
    const known = seen.get(name);
    const last = known?.text === text && known ? known : { text, since: now };
    seen.set(name, last);
    if (now - last.since <= silence) return text === undefined ? UNREAD : (JSON.parse(text) as Report).fault;
    const holder = holding?.sharing()?.holders.get(name);
    return holder === undefined ? `no replica holds ${name}` : `the replica ${holder} says nothing of ${name}`;
  }

  return {
    async report(): Promise<void> {
      const row = (account: HeartbeatAccount): Report => ({ at: clock.now(), fault: faultOf(account) });
      // Accounts that could not be opened are listed, too, but their leases are released.
      const own = accounts().filter(({ name }) => holding?.held(name) ?? true);
      await Promise.all(own.map(each => store.commit(each.name, [{ key: REPORT, value: JSON.stringify(row(each)) }])));
    },
    /** Of accounts that others hold. Rejects with StoreError. */
    async faults(): Promise<readonly string[]> {
      const own = new Set(accounts().map(({ name }) => name));
      const said = store.replicas && (await store.valuesOf(REPORT));
      const others = configured().filter(name => !own.has(name));
      for (const name of seen.keys()) if (!others.includes(name)) seen.delete(name);
      return others.flatMap(name => judge(name, said?.get(name)) ?? []);
    },
  };
}

/**
 * The heartbeat of the whole agent; undefined where it is not configured. Each replica says how the accounts fare that it holds,
 * and the one that holds what is of no account speaks for all.
 */
export function createAgentHeartbeat(deps: AgentHeartbeatDeps): ((signal: AbortSignal) => Promise<void>) | undefined {
  const { config, env, accounts, store, holding, clock } = deps;
  if (!config.heartbeat) return undefined;
  const reports = holding && createReports(deps);
  const beat = createHeartbeat({
    ...deps,
    url: tokenSource(config.heartbeat.url, env),
    async health() {
      // An agent that can't write keeps no counter and loses alerts: it is unwell.
      await store.commit(NO_ACCOUNT, [{ key: KEY, value: new Date(clock.now()).toISOString() }]);
      const others = (await reports?.faults()) ?? [];
      return healthBy([...accounts().flatMap(account => faultOf(account) ?? []), ...others]);
    },
  });
  if (!reports || !holding) return beat;
  return async signal => {
    // What can't be said now misses the one that speaks for all.
    await reports.report().catch(() => undefined);
    if (holding.remaining(NO_ACCOUNT) > 0) await beat(signal);
  };
}
