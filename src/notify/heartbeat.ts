import { isDeciding, isOptional } from '../collectors/index.ts';
import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import { errorCode } from '../kit/error-code.ts';
import type { Log } from '../kit/log.ts';
import { someOf } from '../kit/text.ts';
import type { AccountStatus } from '../model/status.ts';
import type { Leadership } from '../replicas/leadership.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import { tokenSource } from '../upstream/token.ts';
import { HEARTBEAT, type HeartbeatOptions } from './options.ts';

/** Returns the address that reports a failure. healthchecks.io defines the suffix `/fail`. */
export function failAddress(address: string): string {
  const url = new URL(address);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/fail`;
  return url.href;
}

/** Account state that decides whether the agent is healthy. */
export interface HeartbeatAccount {
  readonly name: string;
  status(): AccountStatus;
  /** Whether the service has accepted or rejected the token since the account was opened. */
  isTokenKnown(): boolean;
  isTokenRejected(): boolean | undefined;
}

export interface HeartbeatDeps {
  readonly heartbeat: HeartbeatOptions;
  readonly env: Readonly<Record<string, string | undefined>>;
  accounts(): readonly HeartbeatAccount[];
  configured(): readonly string[];
  readonly store: Pick<Store, 'commit'>;
  readonly leadership?: Pick<Leadership, 'remaining'> | undefined;
  readonly clock: Pick<Clock, 'now'>;
  readonly get: (url: string, signal: AbortSignal) => Promise<{ readonly status: number }>;
  readonly notifications: Counter<'notifier' | 'outcome'>;
  readonly log: Log;
}

/** Key of the agent-wide row with the time of the last check. */
const REPORT = 'heartbeat';
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
export function healthOf(accounts: readonly HeartbeatAccount[], configured: readonly string[]) {
  const open = new Set(accounts.map(({ name }) => name));
  const failures = accounts.flatMap(account => failureOf(account) ?? []);
  const known = failures.filter(failure => failure !== UNREAD);
  const isUnread = failures.length > 0 || configured.some(name => !open.has(name));
  const isHealthy = known.length === 0;
  return isHealthy && isUnread ? undefined : { isHealthy, why: someOf(known) };
}

/**
 * Returns a loop body that reports health to a dead man's switch, unless the agent itself is unhealthy. Only the leader sends it. It
 * never rejects.
 */
export function createHeartbeat(deps: HeartbeatDeps): (signal: AbortSignal) => Promise<void> {
  const { heartbeat, env, accounts, configured, store, leadership, clock, get, notifications, log } = deps;
  const url = tokenSource(heartbeat.url, env);
  let lastWarning: string | undefined;
  let isUnreachable = false;

  function warnOnce(cause: string, fields: object, message: string): void {
    if (lastWarning !== cause) log.warn({ notifier: HEARTBEAT, ...fields }, message);
    lastWarning = cause;
  }

  async function evaluate() {
    try {
      // An agent that cannot write to its store is unhealthy: counters are frozen and alerts may be lost.
      await store.commit(NO_ACCOUNT, [{ key: REPORT, value: new Date(clock.now()).toISOString() }]);
      return healthOf(accounts(), configured());
    } catch (error) {
      warnOnce('unhealthy', { error: String(error) }, 'the heartbeat pauses: the agent is unhealthy');
      return undefined;
    }
  }

  async function send(isHealthy: boolean, signal: AbortSignal): Promise<string | undefined> {
    try {
      const address = (await url()).reveal();
      const { status } = await get(isHealthy ? address : failAddress(address), signal);
      return status >= 200 && status < 300 ? undefined : `status ${status}`;
    } catch (error) {
      if (signal.aborted) throw error;
      return errorCode(error);
    }
  }

  return async signal => {
    if (leadership && leadership.remaining() <= 0) return;
    try {
      const now = await evaluate();
      if (!now) return;
      if (now.isHealthy) lastWarning = undefined;
      else warnOnce(now.why, { why: now.why }, 'the heartbeat reports a failure');
      const wrong = await send(now.isHealthy, signal);
      notifications.inc({ notifier: HEARTBEAT, outcome: wrong === undefined ? 'sent' : 'failed' });
      const fields = { notifier: HEARTBEAT, why: wrong };
      if (wrong !== undefined && !isUnreachable) log.warn(fields, 'the heartbeat can’t be sent');
      if (wrong === undefined && isUnreachable) log.info({ notifier: HEARTBEAT }, 'the heartbeat is sent again');
      isUnreachable = wrong !== undefined;
    } catch (error) {
      if (!signal.aborted) log.error({ notifier: HEARTBEAT, error: String(error) }, 'bug');
    }
  };
}
