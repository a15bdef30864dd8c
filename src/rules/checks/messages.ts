import { dlqFamilies, eventFamilies, flowControlFamilies, type TrackedKey } from '../../collectors/index.ts';
import { ALWAYS, HOUR } from '../../history/recent.ts';
import { seriesName } from '../../history/series-name.ts';
import { MINUTE } from '../../kit/duration.ts';
import { type BurnRate, LOG_BEHIND, MAX_BAD_RATIO, MIN_BAD, MONTH, RETRIES } from '../../metrics/thresholds.ts';
import type { Point } from '../../model/history.ts';
import { EVENT_STATES, type EventState, type MessageOutcome } from '../../model/message.ts';
import type { CheckInput } from './account.ts';
import { type AccountCheck, checksOf, covers, type Findings, KEEP_FIRING_FOR, toAgentTime, UNKNOWN } from './check.ts';
import { waitlistOf } from './flow-control.ts';
import { count, durationText, period, plural, share, within } from './words.ts';

const defineCheck = checksOf('events');

const { finished, overdue, total, gaps } = eventFamilies;

type Bad = 'failed' | 'overdue';

/** Returns the last value until `at`. Before the first point, a waitlist was empty, unless the history does not reach so far. */
const valueAt = (points: readonly Point[], at: number, now: number) =>
  points.findLast(point => point.at <= at)?.value ?? (at < now - ALWAYS ? (points[0]?.value ?? 0) : 0);

/** Time for which a key still counts as paused after it was resumed (ms). */
const RESUMED = 5 * MINUTE;

/**
 * Returns how many messages became overdue in the last `over` milliseconds because their key is paused, or was until a few
 * minutes ago. Nothing leaves a paused waitlist, so these messages are those that joined it before their on-time target, and
 * those that waited when the key was paused. Messages on a key without recorded values are not included.
 */
function overdueOnPausedKeys({ keys, settings, dataOf, now, recent }: CheckInput, over: number): number {
  const target = settings.objectives.onTimeWithin;
  if (dataOf('flow_control').data !== 'fresh') return 0;
  return keys.reduce((sum, { key, paused }) => {
    const pauses = recent(seriesName(flowControlFamilies.paused.name, { flow_control_key: key }), over + target);
    const last = pauses.findLastIndex(({ value }) => value === 1);
    if (!paused && !((pauses[last]?.at ?? 0) >= now - RESUMED)) return sum;
    const points = recent(waitlistOf(key), over + target);
    const isNew = last < 0 || pauses.slice(0, last).some(({ value }) => value === 0);
    const before = isNew ? 0 : valueAt(points, now - over - target, now);
    return sum + Math.max(0, valueAt(points, now - target, now) - before);
  }, 0);
}

/**
 * Counts bad messages and all messages that ended in the last `over` milliseconds; undefined without history. Messages on paused
 * keys are not late: an operator stopped them.
 */
function ended(input: CheckInput, bad: Bad, over: number) {
  const { changes, events, shown } = input;
  const rise = (outcome: MessageOutcome) =>
    changes.rise(seriesName(finished.name, { outcome }), events?.finished[outcome] ?? 0, over);
  const [delivered, failed] = [rise('delivered'), rise('failed')];
  const late = changes.rise(overdue.name, shown.events?.committed?.log.overdue ?? 0, over);
  if (!delivered || !failed || !late) return undefined;
  const all = delivered.by + failed.by;
  const paused = bad === 'failed' ? 0 : Math.min(late.by, overdueOnPausedKeys(input, over));
  const number = bad === 'failed' ? failed.by : late.by - paused;
  // The number of messages that become overdue may exceed the number that end.
  const ratio = all === 0 ? 0 : Math.min(1, number / all);
  return { bad: number, paused, all, ratio, overSeconds: delivered.overSeconds };
}

/** Returns the share of bad messages that corresponds to a burn rate, as in the shipped rules. */
function burnLimit({ settings }: CheckInput, objective: number, times: BurnRate): number {
  const window = settings.objectives.window / 1000;
  return Math.min(Math.max((times * window) / MONTH, 1) * (1 - objective), MAX_BAD_RATIO);
}

/** Burn rates, each with its short window at the end of the hour (ms). The shipped alert uses the same fast burn rate. */
const FAST = { times: 14.4, short: 5 * MINUTE } as const;
const SLOW = { times: 3, short: 15 * MINUTE } as const;
type Rate = typeof FAST | typeof SLOW;

/**
 * Returns numbers of the last hour if the error budget burns at this rate or faster, both in the recorded part of that hour and
 * at its end. A healthy end rules out a burn. Only the shipped alerts detect slower burns, because that needs days of metrics.
 */
function burns(input: CheckInput, bad: Bad, times: BurnRate, short: number) {
  const { delivered, onTime } = input.settings.objectives;
  const objective = bad === 'failed' ? delivered : onTime;
  const limit = burnLimit(input, objective, times);
  const [hour, end] = [ended(input, bad, HOUR), ended(input, bad, short)];
  if (!hour || !end) return 'unknown';
  if (end.ratio <= limit) return covers(end, short) ? 'none' : 'unknown';
  if (hour.bad < MIN_BAD || hour.ratio <= limit) return covers(hour, HOUR) ? 'none' : 'unknown';
  return { ...hour, allowed: 1 - objective };
}

type Burnt = Exclude<ReturnType<typeof burns>, string>;

const burning =
  (bad: Bad, { times, short }: Rate, text: (burnt: Burnt, input: CheckInput) => string) =>
  (input: CheckInput): Findings => {
    const burnt = burns(input, bad, times, short);
    if (typeof burnt === 'object') return text(burnt, input);
    return burnt === 'none' ? [] : UNKNOWN;
  };

const failing = (rate: Rate) =>
  burning(
    'failed',
    rate,
    ({ bad, all, ratio, allowed, overSeconds }) =>
      `${count(bad)} of the ${count(all)} messages that ended ${within(overSeconds)} failed: ${share(ratio)} (the objective allows ${share(allowed)}).`,
  );

/** Mentions late messages that do not count. */
const besidePaused = (paused: number) => (paused === 0 ? '' : ` (without ${count(paused)} on paused keys)`);

const late = (rate: Rate) =>
  burning('overdue', rate, ({ bad, paused, all, allowed, overSeconds }, { settings }) => {
    const target = durationText(settings.objectives.onTimeWithin / 1000);
    // A message becomes late before it ends, so the late messages may not be among those that ended.
    return `In ${period(overSeconds)}, ${plural(bad, 'message')} missed the target of ${target}${besidePaused(paused)} and ${count(all)} ended (the objective allows ${share(allowed)} to be late).`;
  });

/** Whether new dead letters or changing waitlists show that messages are being processed. */
function isMoving({ shown: { dlq }, keys, changes }: CheckInput): boolean {
  const counted = dlq?.committed?.selections.get('all');
  const entered = changes.rise(dlqFamilies.entered.name, counted?.entered, LOG_BEHIND * 1000);
  const waitlist = ({ key, waitlistSize }: TrackedKey) => changes.change(waitlistOf(key), waitlistSize, 15 * MINUTE);
  return (entered?.by ?? 0) > 0 || keys.some(key => (waitlist(key)?.by ?? 0) !== 0);
}

const newestEvent = (input: CheckInput) => toAgentTime(input, input.shown.events?.now?.gauges?.newest);

/** Returns the age (s) of the newest event at the last read, so that a long interval between reads does not count as a lag. */
function lagOf(input: CheckInput): number | undefined {
  const tail = input.rounds.find(({ collector, round }) => collector === 'events' && round === 'tail');
  const newest = newestEvent(input);
  return tail?.dataAt === undefined || newest === undefined ? undefined : (tail.dataAt - newest) / 1000;
}

const FIRST_LAG = 120;
/** Minimum lag in multiples of the average time between two events. */
const USUAL_TIMES = 10;

const riseOf = ({ events, changes }: CheckInput, state: EventState, over: number) =>
  changes.rise(seriesName(total.name, { state }), events?.states[state] ?? 0, over);

/** Counts events of all states in the last hour; undefined without history. */
function eventsOfHour(input: CheckInput) {
  const rises = EVENT_STATES.flatMap(state => riseOf(input, state, HOUR) ?? []);
  if (rises.length === 0) return undefined;
  return {
    by: rises.reduce((sum, { by }) => sum + by, 0),
    overSeconds: Math.max(...rises.map(each => each.overSeconds)),
  };
}

/** `keepFiringFor` of alerts on a fast burn. Its short window of five minutes already shows that the burn has ended. */
const KEEP_BURNING_FOR = 10 * MINUTE;
/** Durations of both checks of a log that is behind. */
const LOG_STALE = { for: 5 * MINUTE } as const;

export const MESSAGES: readonly AccountCheck[] = [
  defineCheck('messages_failing', 'DeliveryErrorBudgetFastBurn', {
    severity: 'critical',
    for: 2 * MINUTE,
    keepFiringFor: KEEP_BURNING_FOR,
    when: 'at least 10 messages failed in the last hour, and the share of failed messages exceeds 14.4 times what `objectives.delivered` allows in both that hour and its last five minutes',
    check: failing(FAST),
  }),
  defineCheck('messages_failing_slowly', 'DeliveryErrorBudgetSlowBurn', {
    for: 15 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    when: 'at least 10 messages failed in the last hour, and the share of failed messages exceeds three times what `objectives.delivered` allows in both that hour and its last 15 minutes',
    check: input =>
      typeof burns(input, 'failed', FAST.times, FAST.short) === 'object' ? UNKNOWN : failing(SLOW)(input),
  }),
  defineCheck('messages_late', 'DeliveryMessagesLate', {
    severity: 'critical',
    for: 2 * MINUTE,
    keepFiringFor: KEEP_BURNING_FOR,
    when: 'at least 10 messages, not counting those on paused keys, became overdue in the last hour, and the share of overdue messages exceeds 14.4 times what `objectives.onTime` allows in both that hour and its last five minutes',
    check: late(FAST),
  }),
  defineCheck('deliveries_stalled', 'DeliveryMessagesLate', {
    severity: 'critical',
    for: 10 * MINUTE,
    when: 'in the last 30 minutes, at least 10 messages, not counting those on paused keys, became overdue and no message was delivered or failed',
    check: input => {
      const found = ended(input, 'overdue', 30 * MINUTE);
      if (found && found.all > 0) return [];
      // A shorter history proves nothing: often no message ends within it.
      if (!found || found.overSeconds < 29 * 60) return UNKNOWN;
      if (found.bad < MIN_BAD) return [];
      return `${count(found.bad)} messages became overdue ${within(found.overSeconds)}${besidePaused(found.paused)}, and none was delivered or failed.`;
    },
  }),
  defineCheck('retries_high', 'DeliveryDestinationFailing', {
    severity: 'info',
    for: 15 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    when: 'of more than 40 delivery attempts in the last 15 minutes, more than a quarter led to a retry',
    check: input => {
      const [retries, attempts] = [riseOf(input, 'retry', 15 * MINUTE), riseOf(input, 'active', 15 * MINUTE)];
      if (!retries || !attempts) return UNKNOWN;
      if (attempts.by <= RETRIES.fewest || retries.by <= RETRIES.share * attempts.by)
        return covers(attempts, 15 * MINUTE) ? [] : UNKNOWN;
      return `${count(retries.by)} of the ${count(attempts.by)} delivery attempts ${within(attempts.overSeconds)} led to a retry (${share(retries.by / attempts.by)}).`;
    },
  }),
  defineCheck('event_log_behind', 'DeliveryEventLogStale', {
    ...LOG_STALE,
    when: 'the newest event was more than 15 minutes old at the last read, although dead letters arrive or waitlists change',
    check: input => {
      const [lag, newest] = [lagOf(input), newestEvent(input)];
      if (lag === undefined) return newest === undefined ? [] : UNKNOWN;
      if (lag <= LOG_BEHIND || !isMoving(input)) return [];
      const text = `The event log is ${durationText(lag)} behind, although messages are moving: message counts are outdated.`;
      return { since: newest, text };
    },
  }),
  defineCheck('event_log_behind', 'DeliveryEventLogStale', {
    ...LOG_STALE,
    severity: 'info',
    when: 'messages are in flight, and at the last read, the newest event was older than both two minutes and ten times the average interval between events',
    check: input => {
      const inFlight = input.shown.events?.now?.gauges?.inFlight ?? 0;
      const [lag, lately] = [lagOf(input), eventsOfHour(input)];
      if (lag === undefined || !lately || lately.by === 0 || inFlight === 0) return [];
      if (lag <= Math.max(FIRST_LAG, (USUAL_TIMES * lately.overSeconds) / lately.by)) return [];
      const text = `The event log is ${durationText(lag)} behind, although it had ${count(lately.by)} events ${within(lately.overSeconds)}.`;
      return { since: newestEvent(input), text };
    },
  }),
  defineCheck('event_log_gap', 'DeliveryDataIncomplete', {
    severity: 'info',
    when: 'a gap in the event log was found in the last hour',
    check: ({ changes, shown: { events } }) => {
      const rise = changes.rise(gaps.name, events?.committed?.log.gaps ?? 0, HOUR);
      if (!rise || rise.by === 0) return covers(rise, HOUR) ? [] : UNKNOWN;
      return `${plural(rise.by, 'gap')} in the event log ${within(rise.overSeconds)}: event counters are too low.`;
    },
  }),
];
