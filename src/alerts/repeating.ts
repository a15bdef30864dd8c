import { backoffDelay } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import { fingerprintOf, type Notice } from './notice.ts';
import type { Receiver } from './notifiers/index.ts';

export interface RepeatingDeps {
  readonly receiver: Receiver;
  /** What fires now, and what was resolved lately. */
  readonly notices: () => readonly Notice[];
  readonly notifications: Counter<'notifier' | 'outcome'>;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
  readonly log: Log;
}

/** Milliseconds after which an alert is told again, changed or not. */
export const REPEAT_EVERY = 60_000;
/** Alerts in one request, as many as Prometheus sends. */
const BATCH = 64;
const BACKOFF = { first: 1000, longest: REPEAT_EVERY };

interface LastTold {
  readonly version: string;
  /** On the monotonic clock. */
  readonly at: number;
  readonly isRefused: boolean;
}

/**
 * Tells one receiver what fires, as soon as it does and then every minute, and of what was resolved until that is forgotten.
 * Gives the body of a loop, which never throws. It remembers nothing beyond the process: telling twice does no harm.
 */
export function createRepeating(deps: RepeatingDeps): (signal: AbortSignal) => Promise<void> {
  const { receiver, notices, notifications, clock, random, log } = deps;
  const { notifier, member } = receiver;
  let told = new Map<string, LastTold>();
  let failures = 0;
  let notBefore = 0;

  const versionOf = ({ status, startsAt }: Notice) => `${status} ${startsAt}`;

  function isDue(notice: Notice): boolean {
    const last = told.get(fingerprintOf(notice.labels));
    if (last?.version !== versionOf(notice)) return true;
    return !last.isRefused && clock.monotonic() - last.at >= REPEAT_EVERY;
  }

  function remember(batch: readonly Notice[], isRefused: boolean): void {
    const at = clock.monotonic();
    for (const notice of batch) {
      told.set(fingerprintOf(notice.labels), { version: versionOf(notice), at, isRefused });
      notifications.inc({ notifier, outcome: isRefused ? 'dropped' : 'sent' });
    }
  }

  /** Gives whether the receiver may be told of others now. */
  async function tell(batch: readonly Notice[], signal: AbortSignal): Promise<boolean> {
    const answer = await receiver.tell(batch, signal);
    if (answer.kind === 'failed') {
      failures += 1;
      notBefore = clock.monotonic() + backoffDelay(BACKOFF, failures, random);
      notifications.inc({ notifier, outcome: 'failed' }, batch.length);
      const fields = { notifier, member, why: answer.why, alerts: batch.length };
      if (failures === 1) log.warn(fields, 'alerts could not be sent and are tried again');
      else log.debug(fields, 'alerts still can not be sent');
      return false;
    }
    if (failures > 0) log.info({ notifier, member }, 'alerts can be sent again');
    failures = 0;
    if (answer.kind === 'refused' && batch.length > 1) {
      // One of them is bad: by themselves, only that one is refused.
      for (const notice of batch) if (!(await tell([notice], signal))) return false;
      return true;
    }
    if (answer.kind === 'refused') {
      const [notice] = batch;
      log.error(
        { notifier, member, labels: notice?.labels, why: answer.why },
        'an alert is refused and not sent again',
      );
    }
    remember(batch, answer.kind === 'refused');
    return true;
  }

  return async signal => {
    if (clock.monotonic() < notBefore) return;
    try {
      const all = notices();
      const known = new Set(all.map(({ labels }) => fingerprintOf(labels)));
      told = new Map([...told].filter(([fingerprint]) => known.has(fingerprint)));
      const due = all.filter(isDue);
      for (let at = 0; at < due.length; at += BATCH) {
        if (!(await tell(due.slice(at, at + BATCH), signal))) return;
      }
    } catch (error) {
      if (!signal.aborted) log.error({ notifier, member, error: String(error) }, 'bug');
    }
  };
}
