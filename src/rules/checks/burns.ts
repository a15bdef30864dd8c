import { eventFamilies, flowControlFamilies } from '../../collectors/index.ts';
import { ALWAYS } from '../../history/recent.ts';
import { seriesName } from '../../history/series-name.ts';
import { HOUR, MINUTE } from '../../kit/duration.ts';
import { ownFamilies } from '../../metrics/own.ts';
import {
  BURN_WINDOWS,
  type BurnRate,
  type BurnWindows,
  MAX_BAD_RATIO,
  MIN_BAD,
  MONTH,
} from '../../metrics/thresholds.ts';
import type { Point } from '../../model/history.ts';
import type { MessageOutcome } from '../../model/message.ts';
import type { CheckInput } from './account.ts';
import { covers } from './check.ts';
import { waitlistOf } from './flow-control.ts';

const { finished, overdue } = eventFamilies;

export type Bad = 'failed' | 'overdue';
export type BurnPace = keyof typeof BURN_WINDOWS;

/** Hourly series: messages that became overdue because their key was paused. */
export const OVERDUE_PAUSED = '!overdue_paused';

export const finishedOf = (outcome: MessageOutcome) => seriesName(finished.name, { outcome });

/** Time after a failed read for which events are still treated as counted in real time (ms). */
const COUNTED_FOR = 5 * MINUTE;

/**
 * Returns the length of the longest part of a window (ms) that starts and ends while events are counted in real time; undefined
 * without such a part. After an outage, all missed events are counted at once, so a part that starts during the outage would
 * contain older events. Hourly values exist only for times at which events are counted in real time.
 */
export function countedPart({ recent, isCounting, now }: CheckInput, over: number): number | undefined {
  const counting = recent(ownFamilies.counting.name, Math.min(over, ALWAYS)).filter(({ value }) => value === 1);
  if (!isCounting && !((counting.at(-1)?.at ?? 0) >= now - COUNTED_FOR)) return undefined;
  if (over > ALWAYS) return over;
  const [start] = counting;
  return start && now - start.at;
}

/**
 * Returns how many messages became overdue in the last `over` milliseconds because their key was paused. Nothing leaves a paused
 * waitlist. So these messages joined it in the `over` milliseconds that ended one on-time target ago, or were already waiting
 * when the key was paused. Messages on a key without recorded values are not included.
 */
function lateOnPausedKeys({ keys, settings, now, recent }: CheckInput, over: number): number {
  const target = settings.objectives.onTimeWithin;
  // The history of waitlists reaches back only `ALWAYS`.
  const start = Math.max(now - over - target, now - ALWAYS);
  return keys.reduce((sum, { key, paused }) => {
    const pauses = recent(seriesName(flowControlFamilies.paused.name, { flow_control_key: key }), over + target);
    const last = pauses.findLastIndex(({ value }) => value === 1);
    if (!paused && last < 0) return sum;
    const isNew = last < 0 || pauses.slice(0, last).some(({ value }) => value === 0);
    const end = Math.min(now - target, paused ? now : (pauses[last]?.at ?? 0));
    const waitlist = recent(waitlistOf(key), over + target);
    const before = isNew ? 0 : (waitlist.findLast(({ at }) => at <= start)?.value ?? 0);
    // If there is no value at `end`, the next value is an upper limit.
    const after = waitlist.find(({ at }) => at >= end) ?? waitlist.at(-1);
    return sum + Math.max(0, (after?.value ?? 0) - before);
  }, 0);
}

/** Whether keys may be paused without the agent's knowledge. If so, late messages prove nothing. */
export function arePausesUnknown({ dataOf, keys }: CheckInput): boolean {
  const { enabled, data } = dataOf('flow_control');
  if (!enabled || data === 'fresh' || data === 'partial') return false;
  return data !== 'stale' || keys.some(({ paused }) => paused);
}

const overdueTotal = ({ shown }: CheckInput) => shown.events?.committed?.log.overdue ?? 0;

/** Returns the counter `OVERDUE_PAUSED`: its last hourly value, plus the messages since then. */
export function overduePausedTotal(input: CheckInput): number {
  const last = input.recent(OVERDUE_PAUSED, BURN_WINDOWS.slow[1].long).at(-1);
  if (!last) return 0;
  const over = input.now - last.at;
  const late = input.changes.rise(overdue.name, overdueTotal(input), over)?.by ?? 0;
  return last.value + Math.min(late, lateOnPausedKeys(input, over));
}

/**
 * Counts the bad messages and all ended messages of the last `over` milliseconds; undefined without history. Messages on paused
 * keys do not count as late: an operator stopped them.
 */
export function ended(input: CheckInput, bad: Bad, over: number) {
  const { changes, events } = input;
  const part = countedPart(input, over);
  if (part === undefined) return undefined;
  const rise = (outcome: MessageOutcome) => changes.rise(finishedOf(outcome), events?.finished[outcome] ?? 0, part);
  const [delivered, failed] = [rise('delivered'), rise('failed')];
  const late = changes.rise(overdue.name, overdueTotal(input), part);
  if (!delivered || !failed || !late) return undefined;
  const all = delivered.by + failed.by;
  const onPaused = () =>
    part > ALWAYS
      ? (changes.rise(OVERDUE_PAUSED, overduePausedTotal(input), part)?.by ?? 0)
      : lateOnPausedKeys(input, part);
  const paused = bad === 'failed' || late.by === 0 ? 0 : Math.min(late.by, onPaused());
  const number = bad === 'failed' ? failed.by : late.by - paused;
  // The number of messages that become overdue may exceed the number that end.
  const ratio = all === 0 ? 0 : Math.min(1, number / all);
  return { bad: number, paused, all, ratio, overSeconds: delivered.overSeconds };
}

const objectiveOf = ({ settings: { objectives } }: CheckInput, bad: Bad) =>
  bad === 'failed' ? objectives.delivered : objectives.onTime;

/**
 * Returns the share of bad messages that corresponds to a burn rate. The shorter the window of the objective, the lower the burn
 * rate that spends the same share of the budget.
 */
function burnLimit(input: CheckInput, bad: Bad, times: BurnRate): number {
  const { window } = input.settings.objectives;
  return Math.min(Math.max((times * window) / MONTH, 1) * (1 - objectiveOf(input, bad)), MAX_BAD_RATIO);
}

/**
 * Returns the numbers of the long window, or of its recorded part, if the error budget burns at this rate or faster in both
 * windows. A healthy short window rules out a burn. If the short window is incomplete, the result is unknown.
 */
function burns(input: CheckInput, bad: Bad, { times, long, short }: BurnWindows) {
  const limit = burnLimit(input, bad, times);
  const end = ended(input, bad, short);
  if (!end || !covers(end, short)) return 'unknown';
  if (end.ratio <= limit) return 'none';
  const whole = ended(input, bad, long);
  if (!whole) return 'unknown';
  if (whole.bad < MIN_BAD || whole.ratio <= limit) return covers(whole, long) ? 'none' : 'unknown';
  return { ...whole, allowed: 1 - objectiveOf(input, bad) };
}

/** Returns the numbers of the first pair of windows in which the error budget burns at this pace. */
export function burnOf(input: CheckInput, bad: Bad, pace: BurnPace): ReturnType<typeof burns> {
  const all = BURN_WINDOWS[pace].map(burn => burns(input, bad, burn));
  return all.find(each => typeof each === 'object') ?? (all.includes('unknown') ? 'unknown' : 'none');
}

/** Selects the first point of each hour, and the last point. */
const byHour = (points: readonly Point[]): readonly Point[] =>
  points.filter(({ at }, index) => {
    const last = points[index - 1]?.at ?? 0;
    return index === points.length - 1 || Math.floor(at / HOUR) !== Math.floor(last / HOUR);
  });

/**
 * Whether the error budget burnt fast in the last six hours, so that a slow burn would only report the same incident. Estimated
 * from hourly values: an hour with a burn rate of 14.4 lies within two clock hours with at least half that rate.
 */
export function hasBurntFast(input: CheckInput): boolean {
  const { recent, now } = input;
  const hours = (outcome: MessageOutcome) =>
    new Map(byHour(recent(finishedOf(outcome), 13 * HOUR)).map(({ at, value }) => [at, value]));
  const [delivered, failed] = [hours('delivered'), hours('failed')];
  const times = [...failed.keys()].filter(at => delivered.has(at));
  const isBurning = (from: number | undefined, to: number, limit: number) => {
    const risen = (of: ReadonlyMap<number, number>) => (of.get(to) ?? 0) - (of.get(from ?? to) ?? 0);
    const bad = risen(failed);
    return bad >= MIN_BAD && bad > limit * (bad + risen(delivered));
  };
  const [hour, sixHours] = BURN_WINDOWS.fast.map(({ times }) => burnLimit(input, 'failed', times)) as [number, number];
  return times.some(
    (to, index) =>
      to >= now - 6 * HOUR && (isBurning(times[index - 2], to, hour / 2) || isBurning(times[index - 6], to, sixHours)),
  );
}
