import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { Secret } from '../kit/secret.ts';
import { HEARTBEAT } from './options.ts';

/** `ok`; why not; or undefined: nothing was read yet, or the agent is not able to judge. */
export type Health = { readonly isWell: true } | { readonly isWell: false; readonly why: string };

export interface HeartbeatDeps {
  readonly url: () => Promise<Secret>;
  /** What the other side shall hear; undefined: nothing. Rejects where the agent is unwell. */
  readonly health: () => Promise<Health | undefined>;
  readonly get: (url: string, signal: AbortSignal) => Promise<{ readonly status: number }>;
  readonly notifications: Counter<'notifier' | 'outcome'>;
  readonly log: Log;
}

/** The address that says that something is wrong: `/fail` after the path, as healthchecks.io has it. */
export function failAddress(address: string): string {
  const url = new URL(address);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/fail`;
  return url.href;
}

/** Returns the body of a loop that reports health to a dead man's switch; silent while the agent itself is unwell. Never rejects. */
export function createHeartbeat(deps: HeartbeatDeps): (signal: AbortSignal) => Promise<void> {
  const { url, health, get, notifications, log } = deps;
  let said: string | undefined;
  let isUnreachable = false;

  function note(what: string, fields: object, message: string): void {
    if (said !== what) log.warn({ notifier: HEARTBEAT, ...fields }, message);
    said = what;
  }

  async function judge(): Promise<Health | undefined> {
    try {
      return await health();
    } catch (error) {
      note('unwell', { error: String(error) }, 'the heartbeat pauses: the agent is unwell');
      return undefined;
    }
  }

  async function ask(isWell: boolean, signal: AbortSignal): Promise<string | undefined> {
    try {
      const address = (await url()).reveal();
      const { status } = await get(isWell ? address : failAddress(address), signal);
      return status >= 200 && status < 300 ? undefined : `status ${status}`;
    } catch (error) {
      if (signal.aborted) throw error;
      const { code, name } = error as { readonly code?: unknown; readonly name?: string };
      // Never the message: it may hold the address.
      return typeof code === 'string' ? code : (name ?? 'error');
    }
  }

  return async signal => {
    try {
      const now = await judge();
      if (!now) return;
      if (now.isWell) said = undefined;
      else note(now.why, { why: now.why }, 'the heartbeat reports a failure');
      const wrong = await ask(now.isWell, signal);
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
