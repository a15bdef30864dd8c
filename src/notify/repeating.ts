import { createRetry } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import { fingerprintOf, type Notice } from './notice.ts';
import type { Receiver } from './notifiers/receiver.ts';
import type { MayNotify } from './receiver-queue.ts';

export interface RepeatingDeps {
  readonly receiver: Receiver;
  readonly notices: () => readonly Notice[];
  /** Whether this process may send. */
  readonly mayNotify: MayNotify;
  readonly notifications: Counter<'notifier' | 'outcome'>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
}

/** Interval (ms) at which unchanged alerts are sent again. */
export const REPEAT_EVERY = 60_000;
const BATCH = 64;
const BACKOFF = { first: 1000, longest: REPEAT_EVERY };

interface LastSent {
  readonly version: string;
  readonly at: number;
  readonly isRefused: boolean;
}

/** Returns a loop body that sends alerts when they change and then every minute. It never rejects. */
export function createRepeating(deps: RepeatingDeps): (signal: AbortSignal) => Promise<void> {
  const { receiver, notices, mayNotify, notifications, clock, random, log } = deps;
  const { notifier, member } = receiver;
  const retry = createRetry(BACKOFF, clock, random);
  let sent = new Map<string, LastSent>();

  const versionOf = ({ status, startsAt }: Notice) => `${status} ${startsAt}`;

  function isDue(notice: Notice): boolean {
    const last = sent.get(fingerprintOf(notice.labels));
    if (last?.version !== versionOf(notice)) return true;
    return !last.isRefused && clock.monotonic() - last.at >= REPEAT_EVERY;
  }

  function recordSent(batch: readonly Notice[], isRefused: boolean): void {
    const at = clock.monotonic();
    for (const notice of batch) {
      sent.set(fingerprintOf(notice.labels), { version: versionOf(notice), at, isRefused });
      notifications.inc({ notifier, outcome: isRefused ? 'dropped' : 'sent' });
    }
  }

  async function send(batch: readonly Notice[], signal: AbortSignal): Promise<boolean> {
    const result = await receiver.send(batch, signal);
    if (result.kind === 'failed') {
      retry.failed();
      notifications.inc({ notifier, outcome: 'failed' }, batch.length);
      const fields = { notifier, member, why: result.why, alerts: batch.length };
      if (retry.failures === 1) log.warn(fields, 'alerts could not be sent; retrying');
      else log.debug(fields, 'alerts still cannot be sent');
      return false;
    }
    if (retry.failures > 0) log.info({ notifier, member }, 'alerts can be sent again');
    retry.succeeded();
    if (result.kind === 'refused' && batch.length > 1) {
      // Send each alert separately, so that only invalid ones are rejected.
      for (const notice of batch) if (!(await send([notice], signal))) return false;
      return true;
    }
    if (result.kind === 'refused') {
      const fields = { notifier, member, labels: batch[0]?.labels, why: result.why };
      log.error(fields, 'the receiver rejects an alert; it is not sent again');
    }
    recordSent(batch, result.kind === 'refused');
    return true;
  }

  return async signal => {
    if (!retry.isDue()) return;
    try {
      if (!(await mayNotify())) return;
      const all = notices();
      const known = new Set(all.map(({ labels }) => fingerprintOf(labels)));
      sent = new Map([...sent].filter(([fingerprint]) => known.has(fingerprint)));
      const due = all.filter(isDue);
      for (let at = 0; at < due.length; at += BATCH) {
        if (!(await send(due.slice(at, at + BATCH), signal))) return;
      }
    } catch (error) {
      if (!signal.aborted) log.error({ notifier, member, error: String(error) }, 'bug');
    }
  };
}
