import { dlqFamilies, type EventsFacts, eventFamilies } from '../../collectors/index.ts';
import { ALWAYS } from '../../history/recent.ts';
import { seriesName } from '../../history/series-name.ts';
import { HOUR, MINUTE } from '../../kit/duration.ts';
import {
  BURN_WINDOWS,
  DESTINATION,
  LOG_BEHIND,
  MIN_BAD,
  NOTHING_ENDED,
  REDELIVERED,
} from '../../metrics/thresholds.ts';
import type { EventState } from '../../model/message.ts';
import type { CheckInput } from './account.ts';
import { arePausesUnknown, type BurnPace, burnOf, countedPart, ended, hasBurntFast } from './burns.ts';
import {
  type AccountCheck,
  type CheckOutcome,
  checksOf,
  covers,
  type Findings,
  KEEP_FIRING_FOR,
  toAgentTime,
  UNKNOWN,
} from './check.ts';
import { withGrowingKind } from './dead-letters.ts';
import { waitlistOf } from './flow-control.ts';
import { count, durationText, inLast, longText, percent, plural, within } from './words.ts';

const { attempts, messages } = DESTINATION;

export const attemptsOf = (state: 'error' | 'delivered', destination: string) =>
  seriesName(eventFamilies.total.name, { state, destination });
export const messagesOf = (outcome: 'failed' | 'delivered', destination: string) =>
  seriesName(eventFamilies.finished.name, { outcome, destination });

/** Returns the counts by destination, if events have the label `destination`. */
export const destinationsOf = (facts: EventsFacts | undefined) =>
  facts?.labelled.counters ? [...facts.destinations].filter(([destination]) => destination !== '') : [];

/** Finds failing destinations. The history contains values only of destinations that failed recently. */
function failingDestinations(input: CheckInput): Findings {
  const part = countedPart(input, attempts.over);
  if (part === undefined) return UNKNOWN;
  const { rise } = input.changes;
  return destinationsOf(input.shown.events?.committed).flatMap(([subject, { events, finished }]): CheckOutcome | [] => {
    const errors = rise(attemptsOf('error', subject), events.error, part);
    const successes = rise(attemptsOf('delivered', subject), events.delivered, part)?.by ?? 0;
    if (errors && errors.by > Math.max(successes, attempts.more)) {
      const text = `${count(errors.by)} delivery attempts to ${subject} failed ${within(errors.overSeconds)}, and ${count(successes)} succeeded.`;
      return { subject, text };
    }
    const failed = rise(messagesOf('failed', subject), finished.failed, messages.over);
    const delivered = rise(messagesOf('delivered', subject), finished.delivered, messages.over);
    if (!failed || failed.by < messages.fewest || delivered?.by !== 0) return [];
    if (!covers(delivered, messages.over) && finished.delivered > 0) return [];
    return {
      subject,
      text: `${count(failed.by)} messages to ${subject} failed ${within(failed.overSeconds)}, and none was delivered.`,
    };
  });
}

const defineCheck = checksOf('events');

const { total, gaps, redelivered } = eventFamilies;

const failing =
  (pace: BurnPace) =>
  (input: CheckInput): Findings => {
    const burnt = burnOf(input, 'failed', pace);
    if (typeof burnt === 'string') return burnt === 'none' ? [] : UNKNOWN;
    // A slow burn would only report a fast one again.
    if (pace === 'slow' && (isFailing(input) || hasBurntFast(input))) return UNKNOWN;
    const { bad, all, ratio, allowed, overSeconds } = burnt;
    const sentence = `${count(bad)} of the ${count(all)} messages that ended ${within(overSeconds)} failed: ${percent(ratio)} (the objective allows ${percent(allowed)})`;
    const named = input.dataOf('dlq').data === 'fresh' && withGrowingKind(input, sentence);
    return named || `${sentence}.`;
  };

const isFailing = (input: CheckInput) => typeof burnOf(input, 'failed', 'fast') === 'object';

/** Counts the overdue messages in flight, without messages that may wait on paused keys. */
function hanging({ shown: { events }, keys }: CheckInput): number {
  const waiting = keys.reduce((sum, { paused, waitlistSize = 0 }) => sum + (paused ? waitlistSize : 0), 0);
  return (events?.now?.gauges?.overdue ?? 0) - waiting;
}

const besidePaused = (paused: number) => (paused === 0 ? '' : ` (without ${count(paused)} on paused keys)`);

function late(input: CheckInput): Findings {
  const burnt = burnOf(input, 'overdue', 'fast');
  if (burnt === 'none') return [];
  // If messages are late because they fail, both are one incident.
  if (burnt === 'unknown' || isFailing(input) || arePausesUnknown(input)) return UNKNOWN;
  const { bad, paused, all, allowed, overSeconds } = burnt;
  const target = durationText(input.settings.objectives.onTimeWithin / 1000);
  // A message becomes late before it ends, so late messages may still be in flight.
  return `${plural(bad, 'message')} missed the target of ${target} ${within(overSeconds)}${besidePaused(paused)}, while ${count(all)} ended (the objective allows ${percent(allowed)} to be late).`;
}

/** Whether new dead letters or changing waitlists show that messages are being processed. */
function isMoving({ shown: { dlq }, keys, changes, recent }: CheckInput): boolean {
  const counted = dlq?.committed?.selections.get('all');
  const entered = changes.rise(dlqFamilies.entered.name, counted?.entered, LOG_BEHIND);
  const waits = keys.some(({ key, waitlistSize: now }) =>
    recent(waitlistOf(key), LOG_BEHIND).some(({ value }) => now !== undefined && value !== now),
  );
  return (entered?.by ?? 0) > 0 || waits;
}

const newestEvent = (input: CheckInput) => toAgentTime(input, input.shown.events?.now?.gauges?.newest);

/** Returns the age (ms) of the newest event at the last read, so that a long interval between reads does not count as a lag. */
function lagOf(input: CheckInput): number | undefined {
  const tail = input.rounds.find(({ collector, round }) => collector === 'events' && round === 'tail');
  const newest = newestEvent(input);
  return tail?.dataAt === undefined || newest === undefined ? undefined : tail.dataAt - newest;
}

/** Whether the log has stopped: its newest event is old, although messages are moving. */
function hasStopped(input: CheckInput): boolean {
  const lag = lagOf(input);
  return lag !== undefined && lag > LOG_BEHIND && isMoving(input);
}

const riseOf = ({ events, changes }: CheckInput, state: EventState, over: number) =>
  changes.rise(seriesName(total.name, { state }), events?.states[state] ?? 0, over);

/** `keepFiringFor` of alerts on a fast burn. The short window of such a burn already shows when the burn has ended. */
const KEEP_BURNING_FOR = 10 * MINUTE;

const burnText = (pace: BurnPace) =>
  BURN_WINDOWS[pace]
    .map(
      ({ times, long, short }) =>
        `${times === 1 ? '' : `${times} times `}what \`objectives.delivered\` allows, both ${inLast(long)} and ${inLast(short)}`,
    )
    .join('. Or the share exceeds ');

export const MESSAGES: readonly AccountCheck[] = [
  defineCheck('messages_failing', 'DeliveryErrorBudgetFastBurn', {
    severity: 'critical',
    for: 2 * MINUTE,
    keepFiringFor: KEEP_BURNING_FOR,
    when: `the share of failed messages exceeds ${burnText('fast')}. In either case, at least ${MIN_BAD} messages failed in the longer window`,
    check: failing('fast'),
  }),
  defineCheck('messages_failing_slowly', 'DeliveryErrorBudgetSlowBurn', {
    for: 15 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    when: `the share of failed messages exceeds ${burnText('slow')}. In either case, at least ${MIN_BAD} messages failed in the longer window. For six hours after \`messages_failing\` was true, the condition is unknown`,
    check: failing('slow'),
  }),
  defineCheck('messages_late', 'DeliveryMessagesLate', {
    severity: 'critical',
    // A message that fails after retries is late before it fails. Wait, so that one incident does not cause both alerts.
    for: 5 * MINUTE,
    keepFiringFor: KEEP_BURNING_FOR,
    when: 'the condition of `messages_failing`, but with overdue instead of failed messages, and with `objectives.onTime` instead of `objectives.delivered`. Messages on paused flow-control keys do not count. The condition is unknown during `messages_failing`, or if the agent cannot read which keys are paused',
    check: late,
  }),
  defineCheck('deliveries_stalled', 'DeliveryMessagesLate', {
    severity: 'critical',
    for: 10 * MINUTE,
    when: `${inLast(NOTHING_ENDED)}, at least ${MIN_BAD} messages became overdue, and no message was delivered or failed. Messages on paused flow-control keys do not count. The condition is unknown if the event log has stopped, if the agent cannot read which keys are paused, or if fewer messages became overdue, but at least ${MIN_BAD} are still overdue`,
    check: input => {
      if (hasStopped(input)) return UNKNOWN;
      const found = ended(input, 'overdue', NOTHING_ENDED);
      if (found && found.all > 0) return [];
      // A shorter history proves nothing: often no message ends within it.
      if (!found || 1000 * found.overSeconds < NOTHING_ENDED - MINUTE) return UNKNOWN;
      if (found.bad < MIN_BAD) return hanging(input) < MIN_BAD ? [] : UNKNOWN;
      if (arePausesUnknown(input)) return UNKNOWN;
      return `${count(found.bad)} messages became overdue ${within(found.overSeconds)}${besidePaused(found.paused)}, and none was delivered or failed.`;
    },
  }),
  defineCheck('redeliveries_high', 'DeliveryMessagesRedelivered', {
    keepFiringFor: KEEP_FIRING_FOR,
    when: `in the last hour, the agent counted at least ${MIN_BAD} redeliveries. This number exceeds ${percent(REDELIVERED)} of the delivery attempts in the last hour. The agent counts redeliveries late, so the number must also exceed ${percent(REDELIVERED)} of the attempts in the hour that ended ${longText(ALWAYS - HOUR)} ago`,
    check: input => {
      const found = input.changes.rise(redelivered.name, input.events?.redelivered, HOUR);
      if (!found || found.by < MIN_BAD) return covers(found, HOUR) ? [] : UNKNOWN;
      const [all, hour, half] = [ALWAYS, HOUR, ALWAYS - HOUR].map(over => riseOf(input, 'active', over)?.by);
      if (all === undefined || hour === undefined || half === undefined) return UNKNOWN;
      const attempts = Math.max(hour, all - half);
      if (found.by <= REDELIVERED * attempts) return covers(found, HOUR) ? [] : UNKNOWN;
      return `${count(found.by)} redeliveries were counted ${within(found.overSeconds)}: destinations receive messages twice.`;
    },
  }),
  defineCheck('event_log_behind', 'DeliveryEventLogStale', {
    for: 5 * MINUTE,
    when: `at the last read of the event log, the newest event was more than ${longText(LOG_BEHIND)} old, although dead letters arrive or waitlists change`,
    check: input => {
      const [lag, newest] = [lagOf(input), newestEvent(input)];
      if (lag === undefined) return newest === undefined ? [] : UNKNOWN;
      if (!hasStopped(input)) return [];
      const text = `The event log is ${durationText(lag / 1000)} behind, although messages are moving: message counts are outdated.`;
      return { since: newest, text };
    },
  }),
  defineCheck('event_log_gap', 'DeliveryDataIncomplete', {
    severity: 'info',
    when: 'in the last hour, the agent found a gap in the event log',
    check: ({ changes, shown: { events } }) => {
      const rise = changes.rise(gaps.name, events?.committed?.log.gaps ?? 0, HOUR);
      if (!rise || rise.by === 0) return covers(rise, HOUR) ? [] : UNKNOWN;
      return `${plural(rise.by, 'gap')} in the event log ${within(rise.overSeconds)}: event counters are too low.`;
    },
  }),
  defineCheck('destination_failing', 'DeliveryDestinationFailing', {
    for: 5 * MINUTE,
    // Intervals between retries grow, so a pause between attempts does not mean recovery.
    keepFiringFor: HOUR,
    when: `${inLast(attempts.over)}, more than ${attempts.more} delivery attempts to a destination failed, and more failed than succeeded. Or ${inLast(messages.over)}, at least ${messages.fewest} messages to a destination failed, and none was delivered. This check requires \`collect.events.destination\``,
    check: failingDestinations,
  }),
];
