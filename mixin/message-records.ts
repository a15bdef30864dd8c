import { events } from '../src/collectors/events/events.ts';
import { OBJECTIVES, objectiveFamilies } from '../src/metrics/objectives.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { BURN_RATES, type BurnRate, FEWEST_BAD, MONTH, MOST_BAD } from '../src/metrics/thresholds.ts';
import { accountsOf, highest, highestOf, perReplica, series } from '../src/rules/promql.ts';
import { type Placeholder, placeholder } from './placeholder.ts';
import type { RecordingRule } from './promql.ts';
import { BAD, BURN_ALERTS, type Burn, COUNTED_WINDOWS, type Count, type Window } from './thresholds.ts';
import { completeRecord, ifComplete, range } from './windows.ts';

const { finished, overdue } = events.families;

type Objective = (typeof OBJECTIVES)[number];
/** Increase of a counter since the sample of a minute ago, or the last one before it. */
const lastMinute = (selector: string) => `clamp_min(${selector} - last_over_time(${selector}[15m] offset 1m), 0)`;

/**
 * Counters by the minute, per replica. The records of all windows sum these, so that a window of days reads one series
 * per account instead of one per destination, and neither extrapolates nor loses increases between two reads of a shorter
 * window.
 */
const minutes: Readonly<Record<Count, string>> = {
  failed: perReplica(finished, lastMinute, { where: { outcome: 'failed' } }),
  overdue: lastMinute(series(overdue)),
  finished: perReplica(finished, lastMinute, { where: { outcome: /delivered|failed/ } }),
};
const COUNTS: readonly Count[] = ['failed', 'overdue', 'finished'];

/** Name of the record of the number of messages in a window, by replica. */
export const inReplica = (count: Count, window: string) => `replica:delivery_messages_${count}:increase${window}`;

/** Name of the record of the number of messages in a window, by account. */
export const counted = (count: Count, window: Window) => `account:delivery_messages_${count}:increase${window}`;

/** Name of the record of the share of an objective's bad messages in a window, by account. */
export const badRatio = (objective: Objective, window: Window) =>
  `account:delivery_messages_${BAD[objective]}_per_finished:ratio_increase${window}`;

/** Overdue messages may outnumber finished ones: then the ratio is 1. */
const ratioRecord = (objective: Objective, window: Window): RecordingRule => ({
  record: badRatio(objective, window),
  expr: highestOf(
    `clamp_max(${inReplica(BAD[objective], window)} / ${inReplica('finished', window)}, 1) ${ifComplete(window)}`,
  ),
});

const countRecord = (count: Count, window: Window): RecordingRule => ({
  record: counted(count, window),
  expr: highestOf(`${inReplica(count, window)} ${ifComplete(window)}`),
});

function windowRecords(window: Window): readonly RecordingRule[] {
  const sum = (count: Count) => `sum_over_time(${inReplica(count, '1m')}${range(window)})`;
  return [
    completeRecord(window),
    ...COUNTS.map(count => ({ record: inReplica(count, window), expr: sum(count) })),
    ratioRecord('delivered', window),
    ratioRecord('on_time', window),
    ...COUNTS.map(count => countRecord(count, window)),
  ];
}

/** Record names by account: an objective's error budget as a share of messages, and its window in seconds. */
export const budget = (objective: Objective) => `account:delivery_error_budget_${objective}:ratio`;
const objectiveWindow = 'account:delivery_objective_window_seconds:max';

/** Name of the record of the share of bad messages above which a budget burns too fast, by account. */
export const burnLimit = (objective: Objective, times: BurnRate) =>
  `account:delivery_error_budget_${objective}:burn${String(times).replace('.', '_')}x`;

/**
 * A shorter objective window spends the same share of its budget at a lower rate, but the limit is never below the
 * sustainable rate. For a lax objective the limit is `MOST_BAD`.
 */
const burnLimitRecord = (objective: Objective, times: BurnRate): RecordingRule => ({
  record: burnLimit(objective, times),
  expr: `clamp_max(clamp_min(${times} * ${objectiveWindow} / ${MONTH}, 1) * ${budget(objective)}, ${MOST_BAD})`,
});

/** Name of the record of whether both windows of a burn exceed its limit, by account. */
export const burning = (objective: Objective, { long }: Burn) =>
  `account:delivery_error_budget_${objective}:burning${long}`;

/** Share of bad messages in the long window if the budget burns too fast, 0 if not, absent if unknown. */
function burningRecord(objective: Objective, burn: Burn): RecordingRule {
  const [ofLong, ofShort] = [badRatio(objective, burn.long), badRatio(objective, burn.short)];
  const most = burnLimit(objective, burn.times);
  const burns = `${ofLong} > ${most} and ${ofShort} > ${most} and ${counted(BAD[objective], burn.long)} >= ${FEWEST_BAD}`;
  // A short window below the limit suffices: the budget does not burn now.
  const isDecided = accountsOf(`${ofLong} and ${ofShort} or (${ofShort} unless ${ofShort} > ${most})`);
  return { record: burning(objective, burn), expr: `${burns} or 0 * ${isDecided}` };
}

/** Objectives exposed by agents, or those given to `rules print` if an agent exposes none. */
function objectiveRecords(): readonly RecordingRule[] {
  const otherwise = (value: Placeholder) => `${highest(ownFamilies.up)} * 0 + ${value}`;
  const ratio = (objective: Objective, value: Placeholder): RecordingRule => {
    const set = `max without (objective) (${highest(objectiveFamilies.ratio, undefined, { objective })})`;
    return { record: budget(objective), expr: `1 - (${set} or ${otherwise(value)})` };
  };
  return [
    ratio('delivered', placeholder('delivered')),
    ratio('on_time', placeholder('onTime')),
    {
      record: objectiveWindow,
      expr: `${highest(objectiveFamilies.window)} or ${otherwise(placeholder('windowSeconds'))}`,
    },
    ...OBJECTIVES.flatMap(objective => BURN_RATES.map(times => burnLimitRecord(objective, times))),
  ];
}

/** Records of minutes and short windows, evaluated every minute. */
export const messageRecords: readonly RecordingRule[] = [
  ...objectiveRecords(),
  ...COUNTS.map(count => ({ record: inReplica(count, '1m'), expr: minutes[count] })),
  completeRecord('15m'),
  ...COUNTED_WINDOWS.short.flatMap(windowRecords),
];

/** Records of long windows, which change too slowly to be evaluated every minute. */
export const longRecords: readonly RecordingRule[] = COUNTED_WINDOWS.long.flatMap(windowRecords);

/** Records for alerts on error budgets and their texts. */
export const burnRecords: readonly RecordingRule[] = Object.values(BURN_ALERTS).flatMap(({ objective, burns }) =>
  burns.map(burn => burningRecord(objective, burn)),
);
