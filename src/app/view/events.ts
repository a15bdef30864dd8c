import { events as collector } from '../../collectors/events/events.ts';
import type { AccountView } from '../../http/api/account.ts';
import { OBJECTIVES, objectiveFamilies } from '../../metrics/objectives.ts';
import { OUTCOMES } from '../../model/message.ts';
import { HOUR, type Recent, seriesName } from './recent.ts';
import type { Shown } from './samples.ts';
import type { Truth } from './truth.ts';
import { byLabel, isoSeconds, orNull, sumBy } from './values.ts';

type Events = AccountView['events'];
type LastHour = NonNullable<Events['lastHour']>;

const { families } = collector;

const QUANTILES = [0.5, 0.9, 0.99] as const;

/** Lines of a histogram by upper bound: how many lie below each, whatever the other labels. */
function below(shown: Shown): [le: string, count: number][] {
  const counts = new Map<string, number>();
  for (const { labels, suffix, value } of shown.of(families.timeToDeliver)) {
    const { le } = labels as Readonly<Record<string, string | undefined>>;
    if (suffix === '_bucket' && le !== undefined) counts.set(le, (counts.get(le) ?? 0) + value);
  }
  return [...counts];
}

/** Upper bounds of quantiles of what a histogram has gained in the last hour. */
function timeToDeliver(shown: Shown, recent: Recent): LastHour['timeToDeliver'] {
  const name = `${families.timeToDeliver.name}_bucket`;
  const rises = below(shown).map(([le, count]) => ({
    bound: le === '+Inf' ? null : Number(le),
    rise: recent.rise(seriesName(name, { le }), count, HOUR)?.by ?? 0,
  }));
  const all = rises.at(-1)?.rise ?? 0;
  if (all === 0) return [];
  return QUANTILES.map(quantile => ({
    quantile,
    atMostSeconds: rises.find(({ rise }) => rise >= quantile * all)?.bound ?? null,
  }));
}

/** Null where too little was recorded to tell. */
function lastHour(shown: Shown, recent: Recent, withQuantiles: boolean): Events['lastHour'] {
  const finished = sumBy(shown, families.finished, 'outcome');
  const [delivered, failed, cancelled] = OUTCOMES.map(outcome =>
    recent.rise(seriesName(families.finished.name, { outcome }), finished.get(outcome), HOUR),
  );
  const overdue = recent.rise(families.overdue.name, shown.one(families.overdue), HOUR);
  if (!delivered || !failed || !cancelled || !overdue) return null;
  // A cancelled message says nothing of deliveries.
  const tried = delivered.by + failed.by;
  return {
    overSeconds: delivered.overSeconds,
    delivered: delivered.by,
    failed: failed.by,
    cancelled: cancelled.by,
    overdue: overdue.by,
    deliveredRatio: tried === 0 ? null : delivered.by / tried,
    timeToDeliver: withQuantiles ? timeToDeliver(shown, recent) : [],
  };
}

function attempts(shown: Shown): Events['attempts'] {
  const counts = new Map<string, Events['attempts'][number]>();
  for (const { labels, value } of shown.of(families.answers)) {
    const { result = '', status_class = '' } = labels;
    const key = `${result} ${status_class}`;
    const count = (counts.get(key)?.count ?? 0) + value;
    counts.set(key, { result, statusClass: status_class, count });
  }
  return [...counts.values()];
}

function destinations(shown: Shown): Events['destinations'] {
  const found = new Map<string, Events['destinations'][number]>();
  for (const { labels, value } of shown.of(families.finished)) {
    const destination = labels.destination?.toWellFormed();
    const outcome = OUTCOMES.find(each => each === labels.outcome);
    if (destination === undefined || !outcome) continue;
    const row = found.get(destination) ?? { destination, delivered: 0, failed: 0, cancelled: 0 };
    found.set(destination, { ...row, [outcome]: value });
  }
  return [...found.values()].sort(
    (a, b) => b.failed - a.failed || b.delivered - a.delivered || (a.destination < b.destination ? -1 : 1),
  );
}

/** The event log, and what became of messages. */
export function events({ enabled, data }: Truth, shown: Shown, recent: Recent, withQuantiles = true): Events {
  const inWindow = byLabel(shown, families.recent, 'state');
  const objectives = byLabel(shown, objectiveFamilies.ratio, 'objective');
  const [delivered, onTime] = OBJECTIVES.map(objective => objectives.get(objective) ?? 0);
  return {
    enabled,
    data,
    windowSeconds: orNull(shown.one(families.window)),
    recent: inWindow.size === 0 ? null : Object.fromEntries(inWindow),
    total: Object.fromEntries(sumBy(shown, families.total, 'state')),
    since: isoSeconds(shown.one(families.since)),
    finished: Object.fromEntries(sumBy(shown, families.finished, 'outcome')),
    lastHour: lastHour(shown, recent, withQuantiles),
    objectives: {
      delivered: delivered ?? 0,
      onTime: onTime ?? 0,
      onTimeWithinSeconds: shown.one(objectiveFamilies.onTimeTarget) ?? 0,
    },
    overdue: shown.one(families.overdue) ?? 0,
    inFlight: orNull(shown.one(families.inFlight)),
    oldestInFlight: isoSeconds(shown.one(families.oldestInFlight)),
    newest: isoSeconds(shown.one(families.newest)),
    attempts: attempts(shown),
    destinations: destinations(shown),
    gaps: shown.one(families.gaps) ?? 0,
    late: shown.one(families.late) ?? 0,
    duplicates: shown.one(families.duplicates) ?? 0,
  };
}
