import { createHeartbeat, type Health, type HeartbeatDeps } from '../alerts/heartbeat.ts';
import { isDeciding } from '../config/alerts.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import type { Store } from '../store/store.ts';
import { NO_ACCOUNT } from '../store/store.ts';
import type { Account } from './account.ts';
import { tokenSource } from './account-client.ts';

/** What is known of accounts by which the heartbeat is judged. */
export type HeartbeatAccount = Pick<Account, 'name' | 'status' | 'isTokenKnown' | 'isTokenRejected'>;

export interface AgentHeartbeatDeps extends Omit<HeartbeatDeps, 'url' | 'health'> {
  readonly config: Pick<Config, 'heartbeat'>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Those that there are now. */
  accounts(): readonly HeartbeatAccount[];
  readonly store: Pick<Store, 'commit'>;
  readonly clock: Pick<Clock, 'now'>;
}

/** Where the store keeps when it was last tried. */
const KEY = 'heartbeat';
/** Faults that a log line names. */
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
export function healthOf(accounts: readonly HeartbeatAccount[]): Health | undefined {
  const faults = accounts.flatMap(account => faultOf(account) ?? []);
  const known = faults.filter(fault => fault !== UNREAD);
  if (known.length === 0) return faults.length > 0 ? undefined : { isWell: true };
  const rest = known.length > MOST_NAMED ? ` and ${known.length - MOST_NAMED} more` : '';
  return { isWell: false, why: `${known.slice(0, MOST_NAMED).join(', ')}${rest}` };
}

/** The heartbeat of the whole agent; undefined where it is not configured. */
export function createAgentHeartbeat(deps: AgentHeartbeatDeps): ((signal: AbortSignal) => Promise<void>) | undefined {
  const { config, env, accounts, store, clock } = deps;
  if (!config.heartbeat) return undefined;
  return createHeartbeat({
    ...deps,
    url: tokenSource(config.heartbeat.url, env),
    async health() {
      // An agent that can't write keeps no counter and loses alerts: it is unwell.
      await store.commit(NO_ACCOUNT, [{ key: KEY, value: new Date(clock.now()).toISOString() }]);
      return healthOf(accounts());
    },
  });
}
