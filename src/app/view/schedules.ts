import type { ScheduleFacts } from '../../collectors/index.ts';
import { scheduleFamilies } from '../../collectors/index.ts';
import type { AccountView } from '../../http/api/account.ts';
import type { Shown } from './samples.ts';
import { byLabel, isoSeconds } from './values.ts';

type Schedule = AccountView['schedules'][number];

/** How its last start that was judged fared. */
function stateOf(facts: ScheduleFacts | undefined): Schedule['state'] {
  const { judged, lastDelivered = 0, lastFailed = 0 } = facts ?? {};
  if (judged?.as === 'missed') return 'missed';
  // Sooner than a start counts as late: its messages are given up.
  if (lastFailed > lastDelivered) return 'failing';
  return judged === undefined || judged.as === 'unread' ? 'unknown' : judged.as;
}

/** Deliveries that are expected again and again. `facts`: what has no place in samples, by name. */
export function schedules(shown: Shown, facts: ReadonlyMap<string, ScheduleFacts> | undefined): Schedule[] {
  const { scheduleStarted, scheduleDelivered, scheduleFailed, scheduleNext, scheduleMissed, scheduleLate } =
    scheduleFamilies;
  const of = (family: (typeof scheduleFamilies)[keyof typeof scheduleFamilies]) => byLabel(shown, family, 'schedule');
  const [started, delivered, failed, next] = [scheduleStarted, scheduleDelivered, scheduleFailed, scheduleNext].map(of);
  const late = of(scheduleLate);
  return [...of(scheduleMissed)].map(([name, missed]) => ({
    name,
    state: stateOf(facts?.get(name)),
    lastStarted: isoSeconds(started?.get(name)),
    lastDelivered: isoSeconds(delivered?.get(name)),
    lastFailed: isoSeconds(failed?.get(name)),
    next: isoSeconds(next?.get(name)),
    missed,
    late: late.get(name) ?? 0,
  }));
}
