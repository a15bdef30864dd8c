import { families as dlqFamilies } from '../../collectors/dlq/families.ts';
import { events } from '../../collectors/events/events.ts';
import { type BurnRate, FEWEST_BAD, LOG_BEHIND, MONTH, MOST_BAD, RETRIES } from '../../metrics/thresholds.ts';
import { HOUR, seriesName } from '../recent.ts';
import { type AccountCheck, defineCheck, easing, MINUTE, type Moment, msOf, ofCurrent } from './check.ts';
import { count, lasting, plural, share, within } from './words.ts';

const { finished, overdue, total, gaps } = events.families;

/** All and bad messages that ended in the last `over` milliseconds; undefined without history. */
function ended({ view: { events }, changes }: Moment, bad: 'failed' | 'overdue', over: number) {
  const rise = (outcome: string) =>
    changes.rise(seriesName(finished.name, { outcome }), events.finished[outcome] ?? 0, over);
  const [delivered, failed] = [rise('delivered'), rise('failed')];
  const late = changes.rise(overdue.name, events.overdue, over);
  if (!delivered || !failed || !late) return undefined;
  const all = delivered.by + failed.by;
  const number = bad === 'failed' ? failed.by : late.by;
  // More messages may be late than have ended.
  return { bad: number, all, ratio: all === 0 ? 0 : Math.min(1, number / all), overSeconds: delivered.overSeconds };
}

/** The share of bad messages at this burn rate, as in the shipped rules. */
function burnLimit({ objectives }: Moment, objective: number, times: BurnRate): number {
  const window = objectives.window / 1000;
  return Math.min(Math.max((times * window) / MONTH, 1) * (1 - objective), MOST_BAD);
}

/** Burn rates: that of the shipped alert, and three times the objective. */
const FAST = { times: 14.4, short: 5 * MINUTE } as const;
const SLOW = { times: 3, short: 15 * MINUTE } as const;

/**
 * Whether the error budget burns at this rate in the recorded part of the last hour and at its end. Slower burns need days of
 * metrics: the shipped alerts detect them.
 */
function burns(moment: Moment, bad: 'failed' | 'overdue', times: BurnRate, short: number) {
  const { delivered, onTime } = moment.view.events.objectives;
  const objective = bad === 'failed' ? delivered : onTime;
  const kind = bad === 'failed' ? 'messages_failing' : 'messages_late';
  // The reported problem may be the warning, so the fast burn has no lower threshold.
  const limit = burnLimit(moment, objective, times) * (times === SLOW.times ? easing(moment, kind) : 1);
  const [hour, end] = [ended(moment, bad, HOUR), ended(moment, bad, short)];
  if (!hour || !end || hour.bad < FEWEST_BAD || hour.ratio <= limit || end.ratio <= limit) return undefined;
  return { ...hour, allowed: 1 - objective };
}

const failing = ({ times, short }: typeof FAST | typeof SLOW) =>
  ofCurrent('events', moment => {
    const found = burns(moment, 'failed', times, short);
    if (!found) return [];
    const { bad, all, ratio, allowed, overSeconds } = found;
    return `${count(bad)} of the ${count(all)} messages that ended ${within(overSeconds)} failed: ${share(ratio)}, where the objective allows ${share(allowed)}.`;
  });

const late = ({ times, short }: typeof FAST | typeof SLOW) =>
  ofCurrent('events', (moment, { objectives }) => {
    const found = burns(moment, 'overdue', times, short);
    if (!found) return [];
    const { bad, all, allowed, overSeconds } = found;
    const target = lasting(objectives.onTimeWithinSeconds);
    return `${plural(bad, 'message')} missed the target of ${target} ${within(overSeconds)}, ${count(all)} ended; the objective allows ${share(allowed)} to be late.`;
  });

/** Whether dead letters or waitlists show that messages move. */
function isMoving({ view: { deadLetters, flowControl }, changes }: Moment): boolean {
  const entered = changes.rise(dlqFamilies.entered.name, deadLetters.entered ?? undefined, LOG_BEHIND * 1000);
  return (entered?.by ?? 0) > 0 || flowControl.rows.some(({ change }) => change !== null && change.by !== 0);
}

/** Age of the newest event at the last read (s): rare reads are not a lag. */
function lagOf({ rounds, events }: Moment['view']): number | undefined {
  const tail = rounds.find(({ collector, round }) => collector === 'events' && round === 'tail');
  const [read, newest] = [msOf(tail?.dataAt ?? null), msOf(events.newest)];
  return read === undefined || newest === undefined ? undefined : (read - newest) / 1000;
}

const FIRST_LAG = 120;
/** Minimum lag in multiples of the average time between two events. */
const USUAL_TIMES = 10;

const riseOf = ({ view: { events }, changes }: Moment, state: string, over: number) =>
  changes.rise(seriesName(total.name, { state }), events.total[state] ?? 0, over);

/** Events of all states in the last hour; undefined without history. */
function eventsOfHour(moment: Moment) {
  const rises = Object.keys(moment.view.events.total).flatMap(state => riseOf(moment, state, HOUR) ?? []);
  if (rises.length === 0) return undefined;
  return {
    by: rises.reduce((sum, { by }) => sum + by, 0),
    overSeconds: Math.max(...rises.map(each => each.overSeconds)),
  };
}

export const MESSAGES: readonly AccountCheck[] = [
  defineCheck('messages_failing', 'critical', 'DeliveryErrorBudgetFastBurn', {
    when: 'more than 14.4 times as many messages of the last hour failed as `objectives.delivered` allows, at least 10, and it goes on in the last five minutes',
    check: failing(FAST),
  }),
  defineCheck('messages_failing', 'warning', 'DeliveryErrorBudgetSlowBurn', {
    when: 'the same, three times as many, in the last hour and in its last 15 minutes',
    check: failing(SLOW),
  }),
  defineCheck('messages_late', 'critical', 'DeliveryOnTimeBudgetFastBurn', {
    when: 'more than 14.4 times as many messages of the last hour missed `objectives.onTimeWithin` as `objectives.onTime` allows, at least 10, and it goes on in the last five minutes',
    check: late(FAST),
  }),
  defineCheck('messages_late', 'warning', 'DeliveryOnTimeBudgetSlowBurn', {
    when: 'the same, three times as many, in the last hour and in its last 15 minutes',
    check: late(SLOW),
  }),
  defineCheck('deliveries_stalled', 'critical', 'DeliveryStalled', {
    when: 'in the last 30 minutes at least 10 messages missed `objectives.onTimeWithin`, and none ended',
    check: ofCurrent('events', moment => {
      const found = ended(moment, 'overdue', 30 * MINUTE);
      // In a shorter window, often no message ends.
      if (!found || found.overSeconds < 29 * 60 || found.bad < FEWEST_BAD || found.all > 0) return [];
      return `${count(found.bad)} messages became overdue ${within(found.overSeconds)}, and none was delivered or failed.`;
    }),
  }),
  defineCheck('retries_high', 'warning', 'DeliveryRetryRatioHigh', {
    when: 'more than a quarter of the delivery attempts of the last 15 minutes, of more than 40, led to a retry',
    check: ofCurrent('events', moment => {
      const [retries, attempts] = [riseOf(moment, 'retry', 15 * MINUTE), riseOf(moment, 'active', 15 * MINUTE)];
      if (!retries || !attempts || attempts.by <= RETRIES.fewest || retries.by <= RETRIES.share * attempts.by)
        return [];
      return `${count(retries.by)} of the ${count(attempts.by)} delivery attempts ${within(attempts.overSeconds)} led to a retry (${share(retries.by / attempts.by)}).`;
    }),
  }),
  defineCheck('event_log_behind', 'warning', 'DeliveryEventLogStale', {
    when: 'the newest event was more than 15 minutes old when the log was read last, although dead letters arrive or waitlists change',
    check: ofCurrent('events', (moment, { newest }) => {
      const lag = lagOf(moment.view);
      if (lag === undefined || lag <= LOG_BEHIND || !isMoving(moment)) return [];
      const text = `The event log is ${lasting(lag)} behind, although messages move: numbers of messages lag.`;
      return { since: msOf(newest), text };
    }),
  }),
  defineCheck('event_log_behind', 'info', 'DeliveryEventLogStale', {
    when: 'messages are in flight, and the newest event was older, when the log was read last, than two minutes and than ten times the usual time between two events of the last hour',
    check: ofCurrent('events', (moment, { newest, inFlight }) => {
      const [lag, lately] = [lagOf(moment.view), eventsOfHour(moment)];
      if (lag === undefined || !lately || lately.by === 0 || (inFlight ?? 0) === 0) return [];
      if (lag <= Math.max(FIRST_LAG, (USUAL_TIMES * lately.overSeconds) / lately.by)) return [];
      const text = `The event log is ${lasting(lag)} behind, after ${count(lately.by)} events ${within(lately.overSeconds)}.`;
      return { since: msOf(newest), text };
    }),
  }),
  defineCheck('event_log_gap', 'warning', 'DeliveryEventLogGap', {
    when: 'events were lost in the last hour: they had left the log before they were read',
    check: ofCurrent('events', (moment, events) => {
      const rise = moment.changes.rise(gaps.name, events.gaps, HOUR);
      if (!rise || rise.by === 0) return [];
      return `${plural(rise.by, 'gap')} in the event log ${within(rise.overSeconds)}: counters of events are too low.`;
    }),
  }),
];
