import { isDeciding, isOptional } from '../collectors/index.ts';
import type { Clock } from '../kit/clock.ts';
import type { AccountStatus } from '../model/status.ts';
import type { Leadership } from '../replicas/leadership.ts';
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
  readonly store: Pick<Store, 'commit'>;
  readonly leadership?: Pick<Leadership, 'remaining'> | undefined;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

/** Key of the agent-wide row with the time of the last check. */
const REPORT = 'heartbeat';
const MAX_NAMED = 5;
const UNREAD = 'unread';

/** Returns why an account is unhealthy, or undefined; `UNREAD` before its first read. */
function failureOf({ name, status, isTokenKnown, isTokenRejected }: HeartbeatAccount): string | undefined {
  if (isTokenRejected() === true) return isTokenKnown() ? `the token of ${name} is rejected` : UNREAD;
  const collectors = status().collectors.filter(({ collector }) => !isOptional(collector));
  const rounds = collectors.flatMap(({ collector, rounds }) =>
    rounds.filter(({ round }) => isDeciding(collector, round)).map(round => ({ collector, ...round })),
  );
  const stale = rounds.find(({ stale }) => stale);
  if (stale) return `${stale.collector}/${stale.round} of ${name} is stale`;
  return rounds.some(({ dataAt, idle }) => dataAt === undefined && idle !== 'not_due') ? UNREAD : undefined;
}

/** Returns the health of all configured accounts; undefined if some are unread and none has failed. */
export function healthOf(
  accounts: readonly HeartbeatAccount[],
  configured: readonly string[] = [],
): Health | undefined {
  const open = new Set(accounts.map(({ name }) => name));
  const failures = accounts.flatMap(account => failureOf(account) ?? []);
  const known = failures.filter(failure => failure !== UNREAD);
  const isUnread = failures.length > 0 || configured.some(name => !open.has(name));
  if (known.length === 0) return isUnread ? undefined : { isHealthy: true };
  const rest = known.length > MAX_NAMED ? ` and ${known.length - MAX_NAMED} more` : '';
  return { isHealthy: false, why: `${known.slice(0, MAX_NAMED).join(', ')}${rest}` };
}

/** Returns the loop body of the heartbeat, which only the leader sends; undefined if it is not configured. */
export function createAgentHeartbeat(deps: AgentHeartbeatDeps): ((signal: AbortSignal) => Promise<void>) | undefined {
  const { config, env, accounts, configured, store, leadership, clock } = deps;
  if (!config.heartbeat) return undefined;
  const beat = createHeartbeat({
    ...deps,
    url: tokenSource(config.heartbeat.url, env),
    async health() {
      // An agent that cannot write to its store is unhealthy: counters are frozen and alerts may be lost.
      await store.commit(NO_ACCOUNT, [{ key: REPORT, value: new Date(clock.now()).toISOString() }]);
      return healthOf(accounts(), configured());
    },
  });
  if (!leadership) return beat;
  return async signal => {
    if (leadership.remaining() > 0) await beat(signal);
  };
}
