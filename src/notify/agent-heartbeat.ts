import { isDeciding } from '../collectors/index.ts';
import type { Clock } from '../kit/clock.ts';
import type { AccountStatus } from '../model/status.ts';
import type { Holding } from '../replicas/holding.ts';
import { readRow } from '../store/errors.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import { tokenSource } from '../upstream/token.ts';
import { createHeartbeat, type Health, type HeartbeatDeps } from './heartbeat.ts';
import type { HeartbeatOptions } from './options.ts';

/** Account state that decides whether the agent is healthy. */
export interface HeartbeatAccount {
  readonly name: string;
  status(): AccountStatus;
  /** Whether the service has accepted or rejected the token since the account was opened. */
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

/**
 * Store key of an account's report, written by its holder. `at` always changes, so an unchanged row means a silent holder. The
 * agent-wide row contains the time of the last check.
 */
const REPORT = 'heartbeat';
const MAX_NAMED = 5;
const UNREAD = 'unread';

/** Returns why an account is unhealthy, or undefined; `UNREAD` before its first read. */
function failureOf({ name, status, isTokenKnown, isTokenRejected }: HeartbeatAccount): string | undefined {
  if (isTokenRejected() === true) return isTokenKnown() ? `the token of ${name} is rejected` : UNREAD;
  const rounds = status().collectors.flatMap(({ collector, rounds }) =>
    rounds.filter(({ round }) => isDeciding(collector, round)).map(round => ({ collector, ...round })),
  );
  const stale = rounds.find(({ stale }) => stale);
  if (stale) return `${stale.collector}/${stale.round} of ${name} is stale`;
  return rounds.some(({ dataAt, idle }) => dataAt === undefined && idle !== 'not_due') ? UNREAD : undefined;
}

/** Returns the health of all accounts; undefined if some are unread and none has failed. `others`: failures of other replicas. */
export function healthOf(accounts: readonly HeartbeatAccount[], others: readonly string[] = []): Health | undefined {
  const failures = [...accounts.flatMap(account => failureOf(account) ?? []), ...others];
  const known = failures.filter(failure => failure !== UNREAD);
  if (known.length === 0) return failures.length > 0 ? undefined : { isHealthy: true };
  const rest = known.length > MAX_NAMED ? ` and ${known.length - MAX_NAMED} more` : '';
  return { isHealthy: false, why: `${known.slice(0, MAX_NAMED).join(', ')}${rest}` };
}

interface Report {
  /** Time (ms since the Unix epoch) by the holder's clock, which may differ from ours. */
  readonly at: number;
  readonly fault?: string | undefined;
}

/** Creates the reports of this replica's accounts, and reads those of other replicas for the heartbeat. */
function createReports(
  { accounts, configured, store, clock }: AgentHeartbeatDeps,
  holding: NonNullable<AgentHeartbeatDeps['holding']>,
  every: number,
) {
  /** Last report of each account, and the monotonic time of its first read. */
  const seen = new Map<string, { readonly text: string | undefined; readonly since: number }>();
  // Maximum silence (ms), long enough for a takeover, during which an account has no holder.
  const silence = 3 * every + 2 * (store.replicas?.leaseTime ?? 0);

  function reportedFailure(name: string, text: string | undefined): string | undefined {
    const now = clock.monotonic();
    const known = seen.get(name);
    const last = known?.text === text && known ? known : { text, since: now };
    seen.set(name, last);
    if (now - last.since <= silence)
      return text === undefined ? UNREAD : readRow<Report>(`${REPORT} of the account ${name}`, text).fault;
    const holder = holding.sharing()?.holders.get(name);
    return holder === undefined ? `no replica holds ${name}` : `the replica ${holder} does not report ${name}`;
  }

  return {
    async report(): Promise<void> {
      const row = (account: HeartbeatAccount): Report => ({ at: clock.now(), fault: failureOf(account) });
      // `accounts` also lists accounts that failed to open, but their leases are released.
      const own = accounts().filter(({ name }) => holding.held(name));
      await Promise.all(own.map(each => store.commit(each.name, [{ key: REPORT, value: JSON.stringify(row(each)) }])));
    },
    /** Returns the failures of accounts of other replicas. Rejects with StoreError. */
    async failures(): Promise<readonly string[]> {
      const own = new Set(accounts().map(({ name }) => name));
      const reports = store.replicas && (await store.valuesOf(REPORT));
      const others = configured().filter(name => !own.has(name));
      for (const name of seen.keys()) if (!others.includes(name)) seen.delete(name);
      return others.flatMap(name => reportedFailure(name, reports?.get(name)) ?? []);
    },
  };
}

/**
 * Returns the loop body of the heartbeat; undefined if it is not configured. Each replica reports its accounts; the replica that
 * holds the agent-wide state sends the heartbeat.
 */
export function createAgentHeartbeat(deps: AgentHeartbeatDeps): ((signal: AbortSignal) => Promise<void>) | undefined {
  const { config, env, accounts, store, holding, clock } = deps;
  if (!config.heartbeat) return undefined;
  const reports = holding && createReports(deps, holding, config.heartbeat.every);
  const beat = createHeartbeat({
    ...deps,
    url: tokenSource(config.heartbeat.url, env),
    async health() {
      // An agent that cannot write to its store is unhealthy: counters are frozen and alerts may be lost.
      await store.commit(NO_ACCOUNT, [{ key: REPORT, value: new Date(clock.now()).toISOString() }]);
      return healthOf(accounts(), await reports?.failures());
    },
  });
  if (!reports || !holding) return beat;
  return async signal => {
    // Ignore store errors: if this report is missing for too long, the sender reports a failure.
    await reports.report().catch(() => undefined);
    if (holding.remaining(NO_ACCOUNT) > 0) await beat(signal);
  };
}
