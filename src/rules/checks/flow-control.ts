import { flowControlFamilies } from '../../collectors/index.ts';
import { HOUR } from '../../history/recent.ts';
import { seriesName } from '../../history/series-name.ts';
import { BACKLOG_TREND } from '../../metrics/thresholds.ts';
import type { CheckedKey } from './account.ts';
import {
  type AccountCheck,
  type CheckInput,
  checksOf,
  everySeconds,
  type Finding,
  isMoreBy,
  MINUTE,
  msOf,
  seenFor,
} from './check.ts';
import { count, lasting } from './words.ts';

const defineCheck = checksOf('flow_control');

const nameOf = (key: string) => seriesName(flowControlFamilies.waitlistSize.name, { flow_control_key: key });

/** Reported limits: `parallelism 10 of 10 in use, rate 50 of 50 used`. */
function limitsOf({ parallelismLimit, parallelismInUse, rateLimit, rateUsed }: CheckedKey): string {
  const used = (what: string, of: number | null, limit: number | null, word: string) =>
    of === null || limit === null ? '' : `${what} ${count(of)} of ${count(limit)} ${word}`;
  const slots = used('parallelism', parallelismInUse, parallelismLimit, 'in use');
  const all = [slots, used('rate', rateUsed, rateLimit, 'used')].filter(text => text !== '');
  return all.length === 0 ? '' : `; ${all.join(', ')}`;
}

const isRateUsedUp = ({ rateUsed, rateLimit }: CheckedKey) =>
  rateUsed !== null && rateLimit !== null && rateUsed >= rateLimit;

/** Minimum of reads in a window, or in each third of a trend. */
const READS = 3;

const readsTake = ({ view }: CheckInput) => READS * 1000 * everySeconds(view, 'flow_control', 'list');

const SHORTEST_TREND = 10 * MINUTE;
/** Minimum share of recorded minutes: only the largest keys are recorded. */
const FEWEST_POINTS = 0.7;

/**
 * Growth of a waitlist in the recorded part of the last hour: from the maximum of the first third to the minimum of the last.
 * False without a significant growth.
 */
function trend(
  input: CheckInput,
  { key, waiting }: CheckedKey,
): { by: number; overSeconds: number } | false | 'unknown' {
  const { recent, now } = input;
  // The current number limits the minimum of the last third.
  if (waiting < BACKLOG_TREND.fewest) return false;
  const points = [...recent(nameOf(key), 60 * MINUTE), { at: now, value: waiting }];
  const [first] = points;
  if (!first || now - first.at < Math.max(SHORTEST_TREND, 3 * readsTake(input))) return 'unknown';
  if (points.length < (FEWEST_POINTS * (now - first.at)) / MINUTE) return 'unknown';
  const third = (now - first.at) / 3;
  const early = points.filter(({ at }) => at <= first.at + third).map(({ value }) => value);
  const late = points.filter(({ at }) => at >= now - third).map(({ value }) => value);
  const [most, least] = [Math.max(...early), Math.min(...late)];
  if (least < BACKLOG_TREND.fewest || !isMoreBy(BACKLOG_TREND.growth, least, most)) return false;
  return { by: waiting - first.value, overSeconds: (now - first.at) / 1000 };
}

/** Runs a check for each key on which messages wait. Keys that are not listed have no finding. */
const eachKey =
  (check: (input: CheckInput, row: CheckedKey) => Omit<Finding, 'subject'> | false | 'unknown') =>
  (input: CheckInput) =>
    input.view.flowControl.rows.flatMap(row => {
      const subject = row.key;
      const found = row.waiting > 0 && check(input, row);
      if (found === 'unknown') return { subject, isUnknown: true as const };
      return found ? { ...found, subject } : [];
    });

export const WAITLISTS: readonly AccountCheck[] = [
  defineCheck('waitlist_growing', 'DeliveryFlowControlBacklogGrowing', {
    when: 'a waitlist grew in the recorded part of the last hour (at least ten minutes and nine reads), and the key is not paused. The minimum of its last third is at least 50 messages and exceeds the maximum of its first third by half (at least 25, at most 100)',
    check: eachKey((input, row) => {
      const grown = !row.paused && trend(input, row);
      if (typeof grown !== 'object') return grown;
      const text = `Key ${row.key}: ${count(row.waiting)} wait, +${count(grown.by)} in ${lasting(grown.overSeconds)}${limitsOf(row)}.`;
      return { text };
    }),
  }),
  defineCheck('ghost_slots', 'DeliveryFlowControlGhostSlots', {
    when: 'slots of a key have been in use for more than four minutes while messages waited, and the event log shows no attempt in them',
    check: (_input, { rows }) =>
      rows.flatMap(row => {
        const { key, state, stateSince, ghostSlots: slots, waiting } = row;
        if (slots === null) return state === 'unknown' ? { subject: key, isUnknown: true as const } : [];
        if (slots === 0) return [];
        const [are, them] = slots === 1 ? ['slot is', 'it'] : ['slots are', 'them'];
        const text = `Key ${key}: ${count(slots)} ${are} in use and nothing runs in ${them}; ${count(waiting)} wait${limitsOf(row)}.`;
        return { subject: key, since: state === 'ghost_slots' ? msOf(stateSince) : undefined, text };
      }),
  }),
  defineCheck('waitlist_stalled', 'DeliveryWaitlistStalled', {
    when: 'the number of messages that wait on a key has not changed for 30 minutes and three reads, although the key is not paused and its rate limit is not reached',
    check: eachKey((input, row) => {
      if (row.paused || isRateUsedUp(row) || readsTake(input) > 30 * MINUTE) return false;
      const points = input.recent(nameOf(row.key), 30 * MINUTE);
      if (points.some(({ value }) => value !== row.waiting)) return false;
      const [first] = points;
      if (!first || input.now - first.at < 29 * MINUTE) return 'unknown';
      const text = `Key ${row.key}: the same ${count(row.waiting)} have been waiting for 30 min or more${limitsOf(row)}.`;
      return { since: first.at, text };
    }),
  }),
  defineCheck('paused_with_backlog', 'DeliveryDispatchPausedWithBacklog', {
    when: 'a key is paused and messages wait on it; severity `info` for the first hour',
    check: eachKey((input, row) => {
      if (!row.paused) return false;
      const pausedFor = seenFor(input, 'paused_with_backlog', row.key);
      const lasts = pausedFor < MINUTE ? '' : ` for ${lasting(pausedFor / 1000)} or more`;
      const text = `Key ${row.key} is paused${lasts}: ${count(row.waiting)} wait.`;
      return { severity: pausedFor < HOUR ? 'info' : 'warning', text };
    }),
  }),
];
