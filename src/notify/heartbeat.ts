import type { Counter } from '../kit/counter.ts';
import { errorCode } from '../kit/error-code.ts';
import type { Log } from '../kit/log.ts';
import type { Secret } from '../kit/secret.ts';
import { HEARTBEAT } from './options.ts';

export type Health = { readonly isHealthy: true } | { readonly isHealthy: false; readonly why: string };

export interface HeartbeatDeps {
  readonly url: () => Promise<Secret>;
  /** Returns the health of all accounts; undefined before the first read. Rejects if the agent itself is unhealthy. */
  readonly health: () => Promise<Health | undefined>;
  readonly get: (url: string, signal: AbortSignal) => Promise<{ readonly status: number }>;
  readonly notifications: Counter<'notifier' | 'outcome'>;
  readonly log: Log;
}

/** Returns the address that reports a failure. healthchecks.io defines the suffix `/fail`. */
export function failAddress(address: string): string {
  const url = new URL(address);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/fail`;
  return url.href;
}

/** Returns a loop body that reports health to a dead man's switch, unless the agent itself is unhealthy. It never rejects. */
export function createHeartbeat(deps: HeartbeatDeps): (signal: AbortSignal) => Promise<void> {
  const { url, health, get, notifications, log } = deps;
  let lastWarning: string | undefined;
  let isUnreachable = false;

  function warnOnce(cause: string, fields: object, message: string): void {
    if (lastWarning !== cause) log.warn({ notifier: HEARTBEAT, ...fields }, message);
    lastWarning = cause;
  }

  async function evaluate(): Promise<Health | undefined> {
    try {
      return await health();
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
