import { families } from '../../collectors/dlq/families.ts';
import { CALLBACKS_FAILED, DLQ_AT_ONCE, DLQ_BY_THE_HOUR, DLQ_EXPIRING, DLQ_FULL } from '../../metrics/thresholds.ts';
import { HOUR } from '../recent.ts';
import { type AccountCheck, defineCheck, easing, isMoreBy, MINUTE, type Moment, msOf, ofCurrent } from './check.ts';
import { clockTime, count, lasting, plural, share, within } from './words.ts';

type DeadLetters = Moment['view']['deadLetters'];

/** The largest kind: `503 from api.example.com/orders (871)`. */
function most({ kinds: { largest } }: DeadLetters): string {
  const [first] = largest;
  if (!first) return '';
  const { responseStatus, urlHost, route, messages } = first;
  // Only configured patterns are shown.
  const place = `${urlHost}${route.startsWith('/') ? route : ''}`;
  return `; most: ${/^\d+$/.test(responseStatus) && responseStatus !== '0' ? `status ${responseStatus}` : 'no answer'} from ${place} (${count(messages)})`;
}

/** Minimum of the points between two ages (ms); undefined without points. */
function least(points: readonly { at: number; value: number }[], now: number, from: number, to: number) {
  const values = points.filter(({ at }) => at >= now - from && at <= now - to).map(({ value }) => value);
  return values.length === 0 ? undefined : Math.min(...values);
}

/**
 * Growth of the queue and its window. Removals appear only with the next complete walk, so that the size is a sawtooth: growth
 * over an hour compares the minima of 15 minutes. A history of less than ten minutes is compared with its start.
 */
function growth(moment: Moment, messages: number): { by: number; overSeconds: number } | undefined {
  const { recent, now } = moment;
  const part = easing(moment, 'dlq_growing');
  const points = recent(families.messages.name, 75 * MINUTE);
  const [first] = points;
  if (!first || now - first.at < 2 * MINUTE) return undefined;
  const earlier = points.filter(({ at }) => at <= now - 10 * MINUTE && at >= now - 30 * MINUTE);
  const high = (earlier.length > 0 ? earlier : [first]).reduce((a, b) => (b.value > a.value ? b : a));
  if (isMoreBy(DLQ_AT_ONCE, messages, high.value, part)) {
    return { by: messages - high.value, overSeconds: (now - high.at) / 1000 };
  }
  const settled = Math.min(messages, least(points, now, 15 * MINUTE, 0) ?? messages);
  const before = least(points, now, 75 * MINUTE, 60 * MINUTE);
  if (before === undefined || !DLQ_BY_THE_HOUR.some(growth => isMoreBy(growth, settled, before, part)))
    return undefined;
  return { by: settled - before, overSeconds: 3600 };
}

/** Stuck failure callbacks by the default evidence, or by the rule with the most. */
function stuck({ view, autoCancel }: Moment): { number: number; rule: string | undefined } {
  const suspected = { number: view.deadLetters.suspected ?? 0, rule: undefined as string | undefined };
  return [...(autoCancel?.candidates ?? [])]
    .map(([rule, number]) => ({ number, rule }))
    .reduce((a, b) => (b.number > a.number ? b : a), suspected);
}

export const DEAD_LETTERS: readonly AccountCheck[] = [
  defineCheck('dlq_growing', 'warning', 'DeliveryDlqGrowing', {
    when: 'the queue has grown by a fifth within half an hour (at least 20 messages, at most 50), or within the hour it doubled, or grew by a third (at least 25, at most 100)',
    check: ofCurrent('deadLetters', (moment, queue) => {
      const { messages, entered } = queue;
      const grown = messages === null ? undefined : growth(moment, messages);
      if (!grown || messages === null) return [];
      const came = moment.changes.rise(families.entered.name, entered ?? undefined, HOUR);
      const news = came
        ? `${plural(came.by, 'dead letter')} entered ${within(came.overSeconds)}; the queue grew`
        : 'The dead-letter queue grew';
      return `${news} by ${count(grown.by)} to ${count(messages)} ${within(grown.overSeconds)}${most(queue)}.`;
    }),
  }),
  defineCheck('dlq_expiring', 'critical', 'DeliveryDlqExpiringSoon', {
    when: 'the longest-queued message has used 80 % of the retention, and not more messages expired so far than were removed: a queue whose messages are mostly left to expire is no emergency',
    check: ofCurrent('deadLetters', ({ now }, { oldestEntered, retentionSeconds, nextExpiry, left }) => {
      const [entered, expiry] = [msOf(oldestEntered), msOf(nextExpiry)];
      if (entered === undefined || expiry === undefined || retentionSeconds === null || left === null) return [];
      if (now - entered <= DLQ_EXPIRING * retentionSeconds * 1000 || left.removed < left.expired) return [];
      const rest = expiry > now ? `in ${lasting((expiry - now) / 1000)}, ` : '';
      const text = `The longest-queued dead letter expires ${rest}at ${clockTime(expiry, now)}.`;
      return { since: entered + DLQ_EXPIRING * retentionSeconds * 1000, text };
    }),
  }),
  defineCheck('dlq_old', 'warning', 'DeliveryDlqAgeHigh', {
    when: 'the longest-queued message has been there for longer than `objectives.dlqMaxAge`',
    check: ofCurrent('deadLetters', ({ objectives: { dlqMaxAge }, now }, queue) => {
      const entered = msOf(queue.oldestEntered);
      if (entered === undefined || now - entered <= dlqMaxAge) return [];
      const size = queue.messages === null ? '' : ` of ${count(queue.messages)}`;
      const text = `The longest-queued${size} dead letters has been there for ${lasting((now - entered) / 1000)} (objective: ${lasting(dlqMaxAge / 1000)})${most(queue)}.`;
      return { since: entered + dlqMaxAge, text };
    }),
  }),
  defineCheck('dlq_nearly_full', 'warning', 'DeliveryDlqNearlyFull', {
    when: 'the queue uses more than 80 % of what the plan allows',
    check: ofCurrent('deadLetters', (_moment, { messages, most }) => {
      if (messages === null || most === null || messages <= DLQ_FULL * most) return [];
      return `The dead-letter queue holds ${count(messages)} of the ${count(most)} messages that the plan allows (${share(messages / most)}).`;
    }),
  }),
  defineCheck('callbacks_stuck', 'warning', 'DeliveryFailureCallbackStuck', {
    when: 'failure callbacks are in progress for longer than all their retries can take, or for longer than a rule of auto-cancel allows',
    check: ofCurrent('deadLetters', (moment, { oldestInProgress }) => {
      const { number, rule } = stuck(moment);
      if (number === 0) return [];
      const since = msOf(oldestInProgress);
      const oldest = since === undefined ? '' : `, the oldest for ${lasting((moment.now - since) / 1000)}`;
      const by = rule === undefined ? '' : ` by the rule ${rule}`;
      const text = `${plural(number, 'failure callback seems', 'failure callbacks seem')} stuck${by}${oldest}.`;
      return { since, text };
    }),
  }),
  defineCheck('callbacks_failing', 'warning', 'DeliveryFailureCallbackFailed', {
    when: 'more than a fifth of the failure callbacks that ended have failed',
    check: ofCurrent('deadLetters', (_moment, { callbacks }) => {
      const [failed, succeeded] = [callbacks?.fail ?? 0, callbacks?.success ?? 0];
      if (failed === 0 || failed <= CALLBACKS_FAILED * succeeded) return [];
      return `${count(failed)} of the ${count(failed + succeeded)} failure callbacks that ended failed: these workflows were not told.`;
    }),
  }),
];
