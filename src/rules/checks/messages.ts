import { dlqFamilies, eventFamilies } from '../../collectors/index.ts';
import { HOUR } from '../../history/recent.ts';
import { seriesName } from '../../history/series-name.ts';
import { type BurnRate, FEWEST_BAD, LOG_BEHIND, MONTH, MOST_BAD, RETRIES } from '../../metrics/thresholds.ts';
import type { CheckedAccount } from './account.ts';
import {
  type AccountCheck,
  type CheckInput,
  checksOf,
  covers,
  easing,
  MINUTE,
  msOf,
  type Result,
  UNKNOWN,
} from './check.ts';
import { count, lasting, plural, share, within } from './words.ts';

const defineCheck = checksOf('events');

const { finished, overdue, total, gaps } = eventFamilies;

/** All and bad messages that ended in the last `over` milliseconds; undefined without history. */
function ended({ view: { events }, changes }: CheckInput, bad: 'failed' | 'overdue', over: number) {
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
function burnLimit({ objectives }: CheckInput, objective: number, times: BurnRate): number {
  const window = objectives.window / 1000;
  return Math.min(Math.max((times * window) / MONTH, 1) * (1 - objective), MOST_BAD);
}

/** Burn rates: the fast one is that of the shipped alert. */
const FAST = { times: 14.4, short: 5 * MINUTE } as const;
const SLOW = { times: 3, short: 15 * MINUTE } as const;

/**
 * Whether the error budget burns at this rate in the recorded part of the last hour and at its end. Slower burns need days of
 * metrics: the shipped alerts detect them. A healthy end rules out a burn, even with a short history.
 */
function burns(input: CheckInput, bad: 'failed' | 'overdue', times: BurnRate, short: number) {
  const { delivered, onTime } = input.view.events.objectives;
  const objective = bad === 'failed' ? delivered : onTime;
  const kind = bad === 'failed' ? 'messages_failing' : 'messages_late';
  // The reported finding may be the warning, so the fast burn has no lower threshold.
  const limit = burnLimit(input, objective, times) * (times === SLOW.times ? easing(input, kind) : 1);
  const [hour, end] = [ended(input, bad, HOUR), ended(input, bad, short)];
  if (!hour || !end) return 'unknown';
  if (end.ratio <= limit) return covers(end, short) ? 'none' : 'unknown';
  if (hour.bad < FEWEST_BAD || hour.ratio <= limit) return covers(hour, HOUR) ? 'none' : 'unknown';
  return { ...hour, allowed: 1 - objective };
}

type Burnt = Exclude<ReturnType<typeof burns>, string>;

const burning =
  (
    bad: 'failed' | 'overdue',
    { times, short }: typeof FAST | typeof SLOW,
    text: (burnt: Burnt, of: Events) => string,
  ) =>
  (input: CheckInput, events: Events): Result => {
    const burnt = burns(input, bad, times, short);
    if (typeof burnt === 'object') return text(burnt, events);
    return burnt === 'none' ? [] : UNKNOWN;
  };

type Events = CheckedAccount['events'];

const failing = (rate: typeof FAST | typeof SLOW) =>
  burning(
    'failed',
    rate,
    ({ bad, all, ratio, allowed, overSeconds }) =>
      `${count(bad)} of the ${count(all)} messages that ended ${within(overSeconds)} failed: ${share(ratio)}, where the objective allows ${share(allowed)}.`,
  );

const late = (rate: typeof FAST | typeof SLOW) =>
  burning('overdue', rate, ({ bad, all, allowed, overSeconds }, { objectives }) => {
    const target = lasting(objectives.onTimeWithinSeconds);
    return `${plural(bad, 'message')} missed the target of ${target} ${within(overSeconds)}, ${count(all)} ended; the objective allows ${share(allowed)} to be late.`;
  });

/** Whether dead letters or waitlists show that messages move. */
function isMoving({ view: { deadLetters, flowControl }, changes }: CheckInput): boolean {
  const entered = changes.rise(dlqFamilies.entered.name, deadLetters.entered ?? undefined, LOG_BEHIND * 1000);
  return (entered?.by ?? 0) > 0 || flowControl.rows.some(({ change }) => change !== null && change.by !== 0);
}

/** Age of the newest event at the last read (s): rare reads are not a lag. */
function lagOf({ rounds, events }: CheckedAccount): number | undefined {
  const tail = rounds.find(({ collector, round }) => collector === 'events' && round === 'tail');
  const [read, newest] = [msOf(tail?.dataAt ?? null), msOf(events.newest)];
  return read === undefined || newest === undefined ? undefined : (read - newest) / 1000;
}

const FIRST_LAG = 120;
/** Minimum lag in multiples of the average time between two events. */
const USUAL_TIMES = 10;

const riseOf = ({ view: { events }, changes }: CheckInput, state: string, over: number) =>
  changes.rise(seriesName(total.name, { state }), events.total[state] ?? 0, over);

/** Events of all states in the last hour; undefined without history. */
function eventsOfHour(input: CheckInput) {
  const rises = Object.keys(input.view.events.total).flatMap(state => riseOf(input, state, HOUR) ?? []);
  if (rises.length === 0) return undefined;
  return {
    by: rises.reduce((sum, { by }) => sum + by, 0),
    overSeconds: Math.max(...rises.map(each => each.overSeconds)),
  };
}

export const MESSAGES: readonly AccountCheck[] = [
  defineCheck('messages_failing', 'DeliveryErrorBudgetFastBurn', {
    when: 'in the last hour and in its last five minutes, the share of failed messages is more than 14.4 times what `objectives.delivered` allows, with at least 10 failed messages in the hour',
    check: failing(FAST),
  }),
  defineCheck('messages_failing', 'DeliveryErrorBudgetSlowBurn', {
    when: 'in the last hour and in its last 15 minutes, the share of failed messages is more than three times what `objectives.delivered` allows, with at least 10 failed messages in the hour',
    check: failing(SLOW),
  }),
  defineCheck('messages_late', 'DeliveryOnTimeBudgetFastBurn', {
    when: 'in the last hour and in its last five minutes, the share of messages that missed `objectives.onTimeWithin` is more than 14.4 times what `objectives.onTime` allows, with at least 10 such messages in the hour',
    check: late(FAST),
  }),
  defineCheck('messages_late', 'DeliveryOnTimeBudgetSlowBurn', {
    when: 'in the last hour and in its last 15 minutes, the share of messages that missed `objectives.onTimeWithin` is more than three times what `objectives.onTime` allows, with at least 10 such messages in the hour',
    check: late(SLOW),
  }),
  defineCheck('deliveries_stalled', 'DeliveryStalled', {
    when: 'in the last 30 minutes, at least 10 messages missed `objectives.onTimeWithin` and no message was delivered or failed',
    check: input => {
      const found = ended(input, 'overdue', 30 * MINUTE);
      if (found && found.all > 0) return [];
      // In a shorter window, often no message ends.
      if (!found || found.overSeconds < 29 * 60) return UNKNOWN;
      if (found.bad < FEWEST_BAD) return [];
      return `${count(found.bad)} messages became overdue ${within(found.overSeconds)}, and none was delivered or failed.`;
    },
  }),
  defineCheck('retries_high', 'DeliveryRetryRatioHigh', {
    when: 'more than a quarter of the delivery attempts in the last 15 minutes led to a retry, with more than 40 attempts',
    check: input => {
      const [retries, attempts] = [riseOf(input, 'retry', 15 * MINUTE), riseOf(input, 'active', 15 * MINUTE)];
      if (!retries || !attempts) return UNKNOWN;
      if (attempts.by <= RETRIES.fewest || retries.by <= RETRIES.share * attempts.by)
        return covers(attempts, 15 * MINUTE) ? [] : UNKNOWN;
      return `${count(retries.by)} of the ${count(attempts.by)} delivery attempts ${within(attempts.overSeconds)} led to a retry (${share(retries.by / attempts.by)}).`;
    },
  }),
  defineCheck('event_log_behind', 'DeliveryEventLogStale', {
    when: 'the newest event was more than 15 minutes old at the last read of the log, although dead letters arrive or waitlists change',
    check: (input, { newest }) => {
      const lag = lagOf(input.view);
      if (lag === undefined) return newest === null ? [] : UNKNOWN;
      if (lag <= LOG_BEHIND || !isMoving(input)) return [];
      const text = `The event log is ${lasting(lag)} behind, although messages move: numbers of messages lag.`;
      return { since: msOf(newest), text };
    },
  }),
  defineCheck('event_log_behind', 'DeliveryEventLogStale', {
    severity: 'info',
    when: 'messages are in flight, and at the last read of the log the newest event was older than two minutes and than ten times the average interval of events in the last hour',
    check: (input, { newest, inFlight }) => {
      const [lag, lately] = [lagOf(input.view), eventsOfHour(input)];
      if (lag === undefined || !lately || lately.by === 0 || (inFlight ?? 0) === 0) return [];
      if (lag <= Math.max(FIRST_LAG, (USUAL_TIMES * lately.overSeconds) / lately.by)) return [];
      const text = `The event log is ${lasting(lag)} behind, after ${count(lately.by)} events ${within(lately.overSeconds)}.`;
      return { since: msOf(newest), text };
    },
  }),
  defineCheck('event_log_gap', 'DeliveryEventLogGap', {
    when: 'events were lost in the last hour, because the log no longer contained them when it was read',
    check: (input, events) => {
      const rise = input.changes.rise(gaps.name, events.gaps, HOUR);
      if (!rise || rise.by === 0) return covers(rise, HOUR) ? [] : UNKNOWN;
      return `${plural(rise.by, 'gap')} in the event log ${within(rise.overSeconds)}: counters of events are too low.`;
    },
  }),
];
