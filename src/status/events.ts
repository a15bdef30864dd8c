import { eventFamilies, shownWaits } from '../collectors/events/families.ts';
import { BUCKET_BOUNDS } from '../collectors/events/tally.ts';
import type { EventsFacts } from '../collectors/index.ts';
import type { RecentChanges } from '../history/recent.ts';
import { seriesName } from '../history/series-name.ts';
import { HOUR } from '../kit/duration.ts';
import { formatLe } from '../metrics/family.ts';
import { MESSAGE_OUTCOMES } from '../model/message.ts';
import type { CheckInput } from '../rules/checks/account.ts';
import type { AccountView } from './api/account.ts';
import { isoTime, orNull, sum } from './values.ts';

type Events = AccountView['events'];
type LastHour = NonNullable<Events['lastHour']>;

const QUANTILES = [0.5, 0.9, 0.99] as const;

/** Returns the upper bounds of time-to-deliver quantiles in the last hour. */
function timeToDeliver(facts: EventsFacts, recent: RecentChanges): LastHour['timeToDeliver'] {
  const name = `${eventFamilies.timeToDeliver.name}_bucket`;
  const histograms = shownWaits(facts, 'timeToDeliver');
  let below = 0;
  const rises = [...BUCKET_BOUNDS.timeToDeliver, Number.POSITIVE_INFINITY].map((bound, index) => {
    below += sum(histograms.map(({ state }) => state.counts[index] ?? 0));
    return { bound, rise: recent.rise(seriesName(name, { le: formatLe(bound) }), below, HOUR)?.by ?? 0 };
  });
  const all = rises.at(-1)?.rise ?? 0;
  if (all === 0) return [];
  return QUANTILES.map(quantile => {
    const { bound = Number.POSITIVE_INFINITY } = rises.find(({ rise }) => rise >= quantile * all) ?? {};
    return { quantile, atMostSeconds: Number.isFinite(bound) ? bound : null };
  });
}

/** Returns the numbers of the last hour, without the time to deliver; null if they are unknown. */
export function lastHourOf({ shown: { events: shown }, events, changes }: CheckInput) {
  // Counters of a log that cannot be read say nothing about the last hour.
  if (!events || !shown?.committed || !shown.now) return null;
  const [delivered, failed, cancelled] = MESSAGE_OUTCOMES.map(outcome =>
    changes.rise(seriesName(eventFamilies.finished.name, { outcome }), events.finished[outcome], HOUR),
  );
  const overdue = changes.rise(eventFamilies.overdue.name, shown.committed.log.overdue, HOUR);
  if (!delivered || !failed || !cancelled || !overdue) return null;
  const redelivered = changes.rise(eventFamilies.redelivered.name, events.redelivered, HOUR);
  // A cancelled message counts neither as delivered nor as failed.
  const tried = delivered.by + failed.by;
  return {
    overSeconds: delivered.overSeconds,
    delivered: delivered.by,
    failed: failed.by,
    cancelled: cancelled.by,
    overdue: overdue.by,
    redelivered: orNull(redelivered?.by),
    deliveredRatio: tried === 0 ? null : delivered.by / tried,
  };
}

const destinations = ({ destinations, labelled }: EventsFacts): Events['destinations'] =>
  labelled.counters
    ? [...destinations]
        .map(([destination, { finished }]) => ({ destination, ...finished }))
        .sort((a, b) => b.failed - a.failed || b.delivered - a.delivered || (a.destination < b.destination ? -1 : 1))
    : [];

export function eventsView(facts: CheckInput): Events {
  const { now, committed } = facts.shown.events ?? { now: undefined, committed: undefined };
  const { delivered, onTime, onTimeWithin } = facts.settings.objectives;
  const gauges = now?.gauges;
  const { enabled, data } = facts.dataOf('events');
  const hour = lastHourOf(facts);
  return {
    enabled,
    data,
    windowSeconds: now ? now.windowMs / 1000 : null,
    recent: gauges ? { ...gauges.recent } : null,
    lastHour: hour && committed ? { ...hour, timeToDeliver: timeToDeliver(committed, facts.changes) } : null,
    objectives: { delivered, onTime, onTimeWithinSeconds: onTimeWithin / 1000 },
    inFlight: orNull(gauges?.inFlight),
    oldestInFlight: isoTime(gauges?.oldestInFlight),
    newest: isoTime(gauges?.newest),
    destinations: committed ? destinations(committed) : [],
  };
}
