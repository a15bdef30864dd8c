import { dlqFamilies } from '../../collectors/index.ts';
import { between, min, upTo } from '../../history/points.ts';
import { HOUR } from '../../history/recent.ts';
import { durationTexts, MINUTE } from '../../kit/duration.ts';
import { CALLBACKS_FAILED, DLQ_AT_ONCE, DLQ_BY_THE_HOUR, DLQ_EXPIRING, DLQ_FULL } from '../../metrics/thresholds.ts';
import type { Point } from '../../model/history.ts';
import type { CheckInput } from './account.ts';
import { type AccountCheck, checksOf, isMoreBy, KEEP_FIRING_FOR, toAgentTime, UNKNOWN } from './check.ts';
import { clockTime, count, durationText, plural, share, within } from './words.ts';

const defineCheck = checksOf('dlq');

/** Returns the facts of the queue: its shown sizes and times, and its committed counts. */
const queueOf = ({ shown: { dlq } }: CheckInput) => {
  const { messages, oldestEntered } = dlq?.now?.selections.get('all') ?? {};
  return { messages, oldestEntered, counted: dlq?.committed?.selections.get('all') };
};

/** Describes the largest kind of all dead letters, old and new: `status 503 from api.example.com/orders (71 of 160)`. */
function largestKind(input: CheckInput): string {
  const { messages: all } = queueOf(input);
  const first = input.shown.dlq?.now?.kinds.largest[0];
  if (!first) return '';
  const { responseStatus, urlHost, route, messages } = first;
  // Omit placeholders such as `__unmatched__`.
  const place = `${urlHost}${route.startsWith('/') ? route : ''}`;
  const status = /^\d+$/.test(responseStatus) && responseStatus !== '0' ? `status ${responseStatus}` : 'no response';
  return `; largest kind in the queue: ${status} from ${place} (${count(messages)}${all === undefined ? '' : ` of ${count(all)}`})`;
}

/** Window of the size before a growth (minutes). A queue that a job drains every hour reaches its maximum within this window. */
const BEFORE = { from: 90, to: 10 } as const;
/** Window of the size an hour ago, and time for which a size must last to count (minutes). */
const HOUR_AGO = { from: 75, to: 60 } as const;
const SETTLED = 15;

/** Returns the size that lasted for `SETTLED` until `at`; undefined if it is unknown. */
const settledAt = (points: readonly Point[], at: number) => min(between(points, at - SETTLED * MINUTE, at));

/** Returns the highest size an hour ago that lasted for `SETTLED`; undefined if it is unknown. */
function settledHourAgo(points: readonly Point[], now: number): number | undefined {
  const sizes = between(points, now - HOUR_AGO.from * MINUTE, now - HOUR_AGO.to * MINUTE).flatMap(
    ({ at }) => settledAt(points, at) ?? [],
  );
  return sizes.length === 0 ? undefined : Math.max(...sizes);
}

/**
 * Returns the growth of the queue and its duration. A queue that is drained and refilled is a sawtooth curve, as is any queue,
 * because removals appear only after the next complete walk. It grows only while it exceeds the maximum of the previous 80
 * minutes, or the first point of a shorter history. Growth over an hour compares sizes that lasted for 15 minutes.
 */
function growth(
  { recent, now }: CheckInput,
  messages: number,
): { by: number; overSeconds: number } | 'none' | 'unknown' {
  const points = recent(dlqFamilies.messages.name, BEFORE.from * MINUTE);
  const [first] = points;
  if (!first || now - first.at < MINUTE) return 'unknown';
  const earlier = points.filter(({ at }) => at <= now - BEFORE.to * MINUTE);
  const high = (earlier.length > 0 ? earlier : [first]).reduce((a, b) => (b.value >= a.value ? b : a));
  if (isMoreBy(DLQ_AT_ONCE, messages, high.value)) {
    return { by: messages - high.value, overSeconds: (now - high.at) / 1000 };
  }
  if (messages < high.value) return 'none';
  const settled = settledAt(upTo(points, { at: now, value: messages }), now);
  if (settled === undefined) return 'unknown';
  if (messages <= high.value && settled < high.value) return 'none';
  const before = settledHourAgo(points, now);
  const hasGrownFrom = (size: number) => DLQ_BY_THE_HOUR.some(limit => isMoreBy(limit, settled, size));
  // Without the size an hour ago, growth can be ruled out only if the queue is too small even compared with an empty one.
  if (before === undefined) return hasGrownFrom(0) ? 'unknown' : 'none';
  return hasGrownFrom(before) ? { by: settled - before, overSeconds: 3600 } : 'none';
}

/** Returns the highest number of stuck failure callbacks, by the default evidence or by one of the rules. */
function stuck({ suspected = 0, autoCancel }: CheckInput): { number: number; rule: string | undefined } {
  return [...(autoCancel?.candidates ?? [])]
    .map(([rule, number]) => ({ number, rule }))
    .reduce((a, b) => (b.number > a.number ? b : a), { number: suspected, rule: undefined as string | undefined });
}

export const DEAD_LETTERS: readonly AccountCheck[] = [
  defineCheck('dlq_growing', 'DeliveryDlqGrowing', {
    for: 2 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    when: 'the queue exceeds its maximum in the 80 minutes that ended ten minutes ago by a fifth (20–50 messages); or it has reached that maximum, and grew by 35 % (25–100) or 100 % (4–100) in an hour',
    check(input) {
      const { messages, counted } = queueOf(input);
      const grown = messages === undefined ? 'unknown' : growth(input, messages);
      if (grown === 'none') return [];
      if (grown === 'unknown' || messages === undefined) return UNKNOWN;
      const rise = input.changes.rise(dlqFamilies.entered.name, counted?.entered, HOUR);
      const start = rise
        ? `${plural(rise.by, 'dead letter')} entered ${within(rise.overSeconds)}; the queue grew`
        : 'The dead-letter queue grew';
      return `${start} by ${count(grown.by)} to ${count(messages)} ${within(grown.overSeconds)}${largestKind(input)}.`;
    },
  }),
  defineCheck('dlq_expiring', 'DeliveryDlqExpiringSoon', {
    severity: 'critical',
    for: 15 * MINUTE,
    when: 'the longest-queued message has used 80 % of the retention, and so far, at least as many messages have been removed as have expired',
    check(input) {
      const { serviceNow: now, retention } = input;
      const { messages, oldestEntered: entered, counted } = queueOf(input);
      if (retention === undefined || messages === 0) return [];
      if (entered === undefined || !counted) return UNKNOWN;
      const { left } = counted;
      if (now - entered <= DLQ_EXPIRING * retention || left.removed < left.expired) return [];
      const expiry = entered + retention;
      const expires = expiry > now ? `expires in ${durationText((expiry - now) / 1000)},` : 'was due to expire';
      const text = `The longest-queued dead letter ${expires} at ${clockTime(expiry, now)}.`;
      return { since: toAgentTime(input, entered + DLQ_EXPIRING * retention), text };
    },
  }),
  defineCheck('dlq_old', 'DeliveryDeadLetters', {
    for: 15 * MINUTE,
    isOff: true,
    when: 'the longest-queued message has been queued for longer than `objectives.dlqMaxAge`',
    check(input) {
      const { serviceNow: now, settings } = input;
      const { dlqMaxAge } = settings.objectives;
      const { messages, oldestEntered: entered } = queueOf(input);
      if (entered === undefined) return messages === 0 ? [] : UNKNOWN;
      if (now - entered <= dlqMaxAge) return [];
      const which = messages === undefined ? 'dead letter' : `of ${plural(messages, 'dead letter')}`;
      const [age, objective] = durationTexts((now - entered) / 1000, dlqMaxAge / 1000);
      const text = `The longest-queued ${which} has been in the queue for ${age} (objective: ${objective})${largestKind(input)}.`;
      return { since: toAgentTime(input, entered + dlqMaxAge), text };
    },
  }),
  defineCheck('dlq_nearly_full', 'DeliveryDlqExpiringSoon', {
    for: 15 * MINUTE,
    when: 'the queue contains more than 80 % of the messages that the plan allows',
    check(input) {
      const { maxDeadLetters: most } = input;
      const { messages } = queueOf(input);
      if (most === undefined) return [];
      if (messages === undefined) return UNKNOWN;
      if (messages <= DLQ_FULL * most) return [];
      return `The dead-letter queue holds ${count(messages)} of the ${count(most)} messages that the plan allows (${share(messages / most)}).`;
    },
  }),
  defineCheck('callbacks_stuck', 'DeliveryFailureCallbackStuck', {
    for: 15 * MINUTE,
    // After a restart, auto-cancel evaluates its rules shortly after the walk.
    keepFiringFor: 2 * MINUTE,
    when: 'failure callbacks have been in progress for longer than all their retries can take, or than an auto-cancel rule allows',
    check(input) {
      const { number, rule } = stuck(input);
      if (number === 0) return input.suspected === undefined ? UNKNOWN : [];
      const since = input.shown.dlq?.now?.oldestInProgress;
      const oldest = since === undefined ? '' : `, the oldest for ${durationText((input.now - since) / 1000)}`;
      const by = rule === undefined ? '' : ` according to the rule ${rule}`;
      const text = `${plural(number, 'failure callback seems', 'failure callbacks seem')} stuck${by}${oldest}.`;
      return { since, text };
    },
  }),
  defineCheck('callbacks_failing', 'DeliveryFailureCallbackStuck', {
    severity: 'info',
    for: 30 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    when: 'more than a fifth of the failure callbacks that ended have failed',
    check({ shown: { dlq } }) {
      const callbacks = dlq?.now?.callbacks;
      const [failed, succeeded] = [callbacks?.fail ?? 0, callbacks?.success ?? 0];
      if (failed === 0 || failed <= CALLBACKS_FAILED * succeeded) return [];
      return `${count(failed)} of the ${count(failed + succeeded)} failure callbacks that ended failed: their workflows were not notified.`;
    },
  }),
];
