import { flowControlFamilies, type KeyLimits, type LimitChange, type TrackedKey } from '../../collectors/index.ts';
import { between, max, min, upTo } from '../../history/points.ts';
import { seriesName } from '../../history/series-name.ts';
import { HOUR, MINUTE } from '../../kit/duration.ts';
import { BACKLOG_TREND, WAITLIST_UNCHANGED } from '../../metrics/thresholds.ts';
import { isAccountFull } from '../../model/flow-state.ts';
import { KEY_LIMITS, type KeyLimit } from '../../model/message.ts';
import type { CheckInput } from './account.ts';
import { type AccountCheck, checksOf, eachOf, type FoundOf, isMoreBy, KEEP_FIRING_FOR, UNKNOWN } from './check.ts';
import { clockTime, count, durationText, growthText, longText, plural } from './words.ts';

const defineCheck = checksOf('flow_control');

/** Returns the name of the series with the recorded waitlist of a key. */
export const waitlistOf = (key: string) => seriesName(flowControlFamilies.waitlistSize.name, { flow_control_key: key });

type WaitingKey = TrackedKey & { readonly waiting: number };

/** Formats reported limits: `parallelism 10 of 10 in use, rate 50 of 50 used`. */
function limitsOf(input: CheckInput, key: TrackedKey): string {
  const { parallelismLimit, parallelismInUse, rateLimit, rateUsed, state } = key;
  const { limit, inUse } = (state === 'account_full' && input.shown.flow_control?.now?.parallelism) || {};
  const used = (what: string, of: number | undefined, limit: number | undefined, word: string) =>
    of === undefined || limit === undefined ? '' : `${what} ${count(of)} of ${count(limit)} ${word}`;
  const slots = used('parallelism', parallelismInUse, parallelismLimit, 'in use');
  const ofAccount = used('the account’s parallelism', inUse, limit, 'in use');
  const all = [slots, used('rate', rateUsed, rateLimit, 'used'), ofAccount].filter(text => text !== '');
  return all.length === 0 ? '' : `; ${all.join(', ')}`;
}

/** Minimum number of reads in a window, or in each third of a trend. */
const READS = 3;

const readsTake = ({ rounds }: CheckInput) =>
  READS * (rounds.find(({ collector, round }) => collector === 'flow_control' && round === 'list')?.every ?? 0);

/** Minimum share of minutes with a point. Points may be missing, because only the largest keys are recorded. */
const MIN_POINTS = 0.7;

/**
 * Returns the growth of a waitlist in an hour; false unless its minimum in the last 20 minutes is well above its maximum in the
 * first 20 minutes, and it has not shrunk since the middle 20 minutes. A shorter growth may be only the rise of a sawtooth curve.
 */
function trend(
  input: CheckInput,
  { key, waiting }: WaitingKey,
): { by: number; overSeconds: number } | false | 'unknown' {
  const { recent, now } = input;
  // The minimum of the last third cannot exceed the current number.
  if (waiting < BACKLOG_TREND.fewest) return false;
  const points = upTo(recent(waitlistOf(key), HOUR), { at: now, value: waiting });
  const [first] = points;
  if (!first || now - first.at < HOUR || 3 * readsTake(input) > HOUR) return 'unknown';
  if (points.length < (MIN_POINTS * (now - first.at)) / MINUTE) return 'unknown';
  const third = (now - first.at) / 3;
  const most = max(between(points, first.at, first.at + third));
  const before = max(between(points, first.at + third, now - third));
  const [least, last] = [min, max].map(of => of(between(points, now - third, now)));
  if (most === undefined || before === undefined || least === undefined || last === undefined) return 'unknown';
  // After a single batch of messages has arrived, the waitlist only shrinks.
  if (last < before) return false;
  if (least < BACKLOG_TREND.fewest || !isMoreBy(BACKLOG_TREND.growth, least, most)) return false;
  return { by: waiting - first.value, overSeconds: (now - first.at) / 1000 };
}

/** Runs a check for each listed key with waiting messages. */
const eachKey = (check: (input: CheckInput, row: WaitingKey) => FoundOf) =>
  eachOf(
    ({ keys }) => keys.filter(({ waitlistSize }) => waitlistSize !== 0),
    ({ key }) => key,
    (input, { waitlistSize: waiting, ...row }) =>
      waiting === undefined ? 'unknown' : check(input, { ...row, waiting }),
  );

/** Maximum time without a recorded value (ms). The waitlist may have changed in a longer gap, such as an outage. */
const MAX_GAP = 5 * MINUTE;

/** Time for which a changed limit is reported (ms). */
const CHANGE_SHOWN_FOR = 24 * HOUR;
const MAX_CHANGED = 100;

/** Returns the last changes of a key's limits, the latest first. */
export const lastChanges = (limits: KeyLimits | undefined) =>
  KEY_LIMITS.flatMap((limit): (LimitChange & { readonly limit: KeyLimit })[] => {
    const last = limits?.[limit]?.last;
    return last ? [{ limit, ...last }] : [];
  }).sort((a, b) => b.at - a.at);

/** Returns the keys with changed limits in the last day, the latest first. */
const recentlyChanged = ({ shown: { flow_control: read }, now }: CheckInput) =>
  [...(read?.committed?.limits ?? [])]
    .map(([key, limits]) => ({ key, changes: lastChanges(limits).filter(({ at }) => now - at < CHANGE_SHOWN_FOR) }))
    .filter(({ changes }) => changes.length > 0)
    .sort((a, b) => (b.changes[0]?.at ?? 0) - (a.changes[0]?.at ?? 0))
    .slice(0, MAX_CHANGED);

export const WAITLISTS: readonly AccountCheck[] = [
  defineCheck('waitlist_growing', 'DeliveryFlowControlBacklogGrowing', {
    for: 15 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    when: `the waitlist of a key has grown within an hour. Its minimum in the last 20 minutes is at least ${BACKLOG_TREND.fewest}, and exceeds the maximum in the first 20 minutes by more than ${growthText(BACKLOG_TREND.growth)}. The maximum in the last 20 minutes is at least as high as in the middle 20 minutes`,
    check: eachKey((input, row) => {
      const grown = !row.paused && trend(input, row);
      if (typeof grown !== 'object') return grown;
      const text = `Key ${row.key}: ${plural(row.waiting, 'message')} waiting, +${count(grown.by)} in ${durationText(grown.overSeconds)}${limitsOf(input, row)}.`;
      return { text };
    }),
  }),
  defineCheck('waitlist_stalled', 'DeliveryWaitlistStalled', {
    for: 10 * MINUTE,
    when: `the waitlist of a key has not changed for ${longText(WAITLIST_UNCHANGED)}, although the key is not paused and has not reached its rate limit. This is not checked if keys are read less often than every ${longText(WAITLIST_UNCHANGED / READS)}`,
    check: eachKey((input, row) => {
      if (row.state === 'paused' || row.state === 'rate_limited' || readsTake(input) > WAITLIST_UNCHANGED) return false;
      const points = input.recent(waitlistOf(row.key), WAITLIST_UNCHANGED);
      if (points.some(({ value }) => value !== row.waiting)) return false;
      const [first] = points;
      const hasGap = points.some(({ at }, index) => (points[index + 1]?.at ?? input.now) - at > MAX_GAP);
      if (!first || hasGap || input.now - first.at < WAITLIST_UNCHANGED - MINUTE) return 'unknown';
      const text = `Key ${row.key}: ${plural(row.waiting, 'message')} waiting, unchanged for ${durationText(WAITLIST_UNCHANGED / 1000)} or more${limitsOf(input, row)}.`;
      return { since: first.at, text };
    }),
  }),
  defineCheck('account_full', 'DeliveryParallelismFull', {
    for: 15 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    when: 'messages wait on flow-control keys, and the deliveries in progress have reached the parallelism limit of the account. This is not checked if the service does not report the limit',
    check({ shown, keys: [longest] }) {
      const { parallelism } = shown.flow_control?.now ?? {};
      if (!parallelism) return [];
      if (!isAccountFull(parallelism)) return parallelism.inUse === undefined ? UNKNOWN : [];
      const { inUse = 0, limit = 0 } = parallelism;
      const waiting = longest ? `; ${plural(longest.waitlistSize ?? 0, 'message')} waiting on key ${longest.key}` : '';
      return `The account’s parallelism is used up: ${count(inUse)} of ${plural(limit, 'delivery', 'deliveries')} at once${waiting}.`;
    },
  }),
  defineCheck('paused_with_backlog', 'DeliveryDispatchPausedWithBacklog', {
    when: 'a flow-control key is paused, and messages wait on this key',
    check: eachKey((_input, { key, paused = false, state, since, waiting }) => {
      const text = `Key ${key} is paused: ${plural(waiting, 'message')} waiting.`;
      return paused && { since: state === 'paused' ? since : undefined, text };
    }),
  }),
  defineCheck('limit_changed', 'DeliveryLimitChanged', {
    severity: 'info',
    when: 'in the last day, the parallelism, rate or rate period of a flow-control key was changed. The agent reports at most the 100 keys that changed last',
    check: eachOf(
      recentlyChanged,
      ({ key }) => key,
      ({ now }, { key, changes }) => {
        const texts = changes.map(({ limit, from, to, at }) => {
          const [what, valueText] = limit === 'period' ? ['rate period', durationText] : [limit, count];
          const when = `by ${clockTime(at, now).replace(/:\d\d UTC$/, ' UTC')}`;
          return `The ${what} of ${key} was changed from ${valueText(from)} to ${valueText(to)} ${when}.`;
        });
        return { since: changes[0]?.at, text: texts.join(' ') };
      },
    ),
  }),
];
