import { events } from '../src/collectors/events/events.ts';
import { type OBJECTIVES, objectiveFamilies } from '../src/metrics/objectives.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { BURN_RATES, type BurnRate, MAX_BAD_RATIO, MIN_BAD, MONTH } from '../src/metrics/thresholds.ts';
import { highest, highestOf, onAccount, PARTIAL, perReplica, series } from '../src/rules/promql.ts';
import { type RecordingRule, unlessBlind } from './promql.ts';
import { BURNS, type Burn, COUNTED_WINDOWS, type Pace, WINDOW_SECONDS, type Window } from './thresholds.ts';

/** Recording rules on messages, by account. Records of bad messages and error budgets also have the label `objective`. */

const { finished, overdue, overdueNow } = events.families;

type Objective = (typeof OBJECTIVES)[number];
const ofObjective = (record: string, objective: Objective) =>
  series({ name: record, labels: ['objective'] }, { objective });

/** 1 if a replica counted events in real time within the last five minutes, else 0. Absent if the account is blind. */
const counting = 'account:delivery_counting:max';
/** Replicas that were catching up with the event log in the last five minutes while another replica counted in real time. */
const behind = 'replica:delivery_behind:min5m';
const steady = `min_over_time(${series(ownFamilies.counting)}[5m])`;

/**
 * Returns the increase of a counter since the sample a minute ago, or since the latest sample in the 15 minutes before that.
 */
const lastMinute = (selector: string) => `clamp_min(${selector} - last_over_time(${selector}[15m] offset 1m), 0)`;
const minutes = (perReplica: string) => highestOf(`${perReplica} unless ${behind}`);

/** Number of messages that were counted as delivered or failed in each minute. */
export const finishedInMinute = 'account:delivery_ended:increase1m';
/** Number of bad messages in each minute by objective: failed messages, or overdue ones, which may never end. */
export const badInMinute = 'account:delivery_bad:increase1m';

/**
 * Increases per minute. Windows are sums of these records, so no increase is lost, and series by destination are read only
 * once.
 */
const minuteRecords: readonly RecordingRule[] = [
  {
    record: counting,
    expr: `${highestOf(`max_over_time(${series(ownFamilies.counting)}[5m])`)}\n${unlessBlind('events')}`,
  },
  { record: behind, expr: `${steady} < ${onAccount()} group_left ${highestOf(steady)}` },
  {
    record: finishedInMinute,
    expr: minutes(perReplica(finished, lastMinute, { where: { outcome: /delivered|failed/ } })),
  },
  {
    record: badInMinute,
    labels: { objective: 'delivered' },
    expr: minutes(perReplica(finished, lastMinute, { where: { outcome: 'failed' } })),
  },
  { record: badInMinute, labels: { objective: 'on_time' }, expr: minutes(lastMinute(series(overdue))) },
];

/**
 * Sums a record over a window. The range is one second shorter: Prometheus before version 3 includes the sample at the start of
 * a range, which would add a minute to the sum.
 */
const sum = (record: string, window: Window) => `sum_over_time(${record}[${WINDOW_SECONDS[window] - 1}s])`;

/**
 * Returns a condition for windows with correct counts. After an outage, the agent counts all missed events at once. A window
 * that starts during the outage then contains events from before its start, but a window that contains the complete outage is
 * correct. So events must be counted in real time both now and at the window's start.
 */
const isComplete = (window: Window) => `${counting} == 1 and ${counting} offset ${window} == 1`;

/**
 * Returns the name of the record with the share of bad messages in a window. The record is absent if the share is unknown, and
 * 0 if there are no messages.
 */
export const badRatio = (window: Window) => `account:delivery_bad:ratio${window}`;

/** Returns the record of `badRatio`. Overdue messages may outnumber finished ones, so the ratio is limited to 1. */
const ratioRecord = (window: Window): RecordingRule => ({
  record: badRatio(window),
  expr: `clamp_max(${sum(badInMinute, window)} / ignoring (objective) group_left clamp_min(${sum(finishedInMinute, window)}, 1), 1)\nand ignoring (objective) (${isComplete(window)})`,
});

/** Name of the record with the error budget as a share of messages. */
export const budgets = 'account:delivery_budget:ratio';

/** Returns the name of the record with the share of bad messages above which a budget burns too fast. */
export const burnLimit = (times: BurnRate) => `account:delivery_burn:limit${String(times).replace('.', '_')}x`;

const budgetRecords: readonly RecordingRule[] = [
  { record: budgets, expr: `1 - ${highest(objectiveFamilies.ratio)}` },
  // In a shorter objective window, a lower burn rate spends the same share of the budget. The limit is at least the sustainable
  // rate and at most `MAX_BAD_RATIO`.
  ...BURN_RATES.map(times => ({
    record: burnLimit(times),
    expr: `clamp_max(clamp_min(${times === 1 ? '' : `${times} * `}${highest(objectiveFamilies.window)} / ${MONTH}, 1)\n* ignoring (objective) group_right ${budgets}, ${MAX_BAD_RATIO})`,
  })),
];

/**
 * Returns the name of the record for both windows of a burn: the long window's share of bad messages, if both windows exceed
 * the limit and the long one has at least `MIN_BAD` bad messages.
 */
export const burningIn = ({ long }: Burn) => `account:delivery_burn:ratio${long}`;

/**
 * Returns the record of `burningIn`. It is 0 if the budget is not burning too fast (a short window below the limit suffices),
 * and absent if unknown.
 */
function burningRecord(burn: Burn): RecordingRule {
  const [long, short, most] = [badRatio(burn.long), badRatio(burn.short), burnLimit(burn.times)];
  return {
    record: burningIn(burn),
    expr: `${long} > ${most} and ${short} > ${most} and ${sum(badInMinute, burn.long)} >= ${MIN_BAD}\nor 0 * (${long} and ${short} or ${short} <= ${most})`,
  };
}

/**
 * Excludes accounts with unreadable rows of the event log, which may contain the data that would resolve an alert. `labels`:
 * labels to ignore.
 */
export const unlessPartial = (...labels: readonly string[]) =>
  `unless ignoring (${['collector', ...labels].join(', ')}) ${series(PARTIAL, { collector: 'events' })} == 1`;

/** Returns the name of the record for an alert's burns: above 0 if the budget is burning too fast, 0 if not, absent if unknown. */
const burningAt = (pace: Pace) => `account:delivery_burn:${pace}`;
export const burning = (objective: Objective, pace: Pace) => ofObjective(burningAt(pace), objective);

/** Returns the record of an alert's burns. Omits a slow burn within six hours after a fast one, because it only repeats the fast one. */
function paceRecord(pace: Pace): RecordingRule {
  const [first, second] = BURNS[pace].map(burningIn);
  const burns = `${first} > 0 or ${second} > 0`;
  return {
    record: burningAt(pace),
    expr: `${pace === 'fast' ? burns : `(${burns}) unless max_over_time(${burningAt('fast')}[6h]) > 0`}\nor 0 * (${first} and ${second}) ${unlessPartial('objective')}`,
  };
}

/** Name of the record with the number of messages that were delivered or failed in half an hour. */
const ended = 'account:delivery_ended:increase30m';
/**
 * Name of the record with the number of messages that became overdue in half an hour, if there were at least `MIN_BAD` and no
 * message ended in that time. 0 if a message ended or none is overdue now; otherwise absent.
 */
export const stalled = 'account:delivery_stalled:increase30m';

const stalledRecords: readonly RecordingRule[] = [
  { record: ended, expr: `${sum(finishedInMinute, '30m')} and ${isComplete('30m')}` },
  {
    record: stalled,
    // Messages that wait for their scheduled time are not overdue.
    expr: `max without (objective) (${sum(ofObjective(badInMinute, 'on_time'), '30m')} >= ${MIN_BAD}) and ${ended} == 0\nor 0 * (${ended} > 0 or ${ended} and ${highest(overdueNow)} == 0)`,
  },
];

/** Recording rules evaluated every minute: error budgets, increases per minute, ratios over short windows, and stalls. */
export const messageRecords: readonly RecordingRule[] = [
  ...budgetRecords,
  ...minuteRecords,
  ...COUNTED_WINDOWS.short.map(ratioRecord),
  ...stalledRecords,
];

/** Ratios over long windows. They change so slowly that they need not be evaluated every minute. */
export const longRecords: readonly RecordingRule[] = COUNTED_WINDOWS.long.map(ratioRecord);

/** Records for error-budget alerts and for the texts of these alerts. */
export const burnRecords: readonly RecordingRule[] = [
  ...Object.values(BURNS).flat().map(burningRecord),
  paceRecord('fast'),
  paceRecord('slow'),
];
