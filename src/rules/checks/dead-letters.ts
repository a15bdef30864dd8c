import { type DlqFacts, dlqFamilies, MAX_KINDS_SHOWN } from '../../collectors/index.ts';
import { between, min, upTo } from '../../history/points.ts';
import { seriesName } from '../../history/series-name.ts';
import { DAY, durationTexts, HOUR, MINUTE } from '../../kit/duration.ts';
import {
  DLQ_AT_ONCE,
  DLQ_BY_SIX_HOURS,
  DLQ_BY_THE_HOUR,
  DLQ_EXPIRING,
  DLQ_FULL,
  RETENTION_EXCEEDED,
} from '../../metrics/thresholds.ts';
import type { Point } from '../../model/history.ts';
import type { CheckInput } from './account.ts';
import {
  type AccountCheck,
  checksOf,
  type Finding,
  type Findings,
  isMoreBy,
  KEEP_FIRING_FOR,
  toAgentTime,
  UNKNOWN,
} from './check.ts';
import { clockTime, count, durationText, growthText, longText, percent, plural, within } from './words.ts';

type Kind = DlqFacts['kinds']['largest'][number];

const sizeOf = ({ shown }: CheckInput) => shown.dlq?.now?.selections.get('all')?.messages;
const kindsOf = ({ shown }: CheckInput): readonly Kind[] => shown.dlq?.now?.kinds.largest ?? [];

const seriesOf = ({ id, urlHost, responseStatus }: Kind) =>
  seriesName(dlqFamilies.groupMessages.name, { group: id, url_host: urlHost, response_status: responseStatus });

/**
 * Returns the changes of the queue and of its shown kinds in the last hour; undefined without history. The change of a kind is
 * undefined if the kind may have been too small to be recorded at the start of the window.
 */
export function kindChanges(input: CheckInput) {
  const { recent, now } = input;
  const [start] = recent(dlqFamilies.groups.name, HOUR);
  if (!start) return undefined;
  const before = (series: string) => recent(series, HOUR).find(({ at }) => at === start.at)?.value;
  const unrecorded = start.value <= MAX_KINDS_SHOWN ? 0 : undefined;
  const change = (value: number | undefined, from: number | undefined) =>
    value === undefined || from === undefined ? undefined : value - from;
  return {
    overSeconds: Math.round((now - start.at) / 1000),
    all: change(sizeOf(input), before(dlqFamilies.messages.name)),
    kinds: kindsOf(input).map(kind => ({ kind, by: change(kind.messages, before(seriesOf(kind)) ?? unrecorded) })),
  };
}

/** Describes a kind: `status 503 from api.example.com/orders`. */
function kindText({ responseStatus, urlHost, route }: Kind): string {
  const status = /^\d+$/.test(responseStatus) && responseStatus !== '0' ? `status ${responseStatus}` : 'no response';
  // Omit placeholders such as `__unmatched__`.
  return `${status} from ${urlHost}${route.startsWith('/') ? route : ''}`;
}

/** Ends a sentence with the largest kind of all dead letters, old and new: `…; largest kind in the queue: … (71 of 160).` */
export function withLargestKind(input: CheckInput, sentence: string): Omit<Finding, 'subject'> {
  const [kind] = kindsOf(input);
  if (!kind) return { text: `${sentence}.` };
  const all = sizeOf(input);
  const number = `${count(kind.messages)}${all === undefined ? '' : ` of ${count(all)}`}`;
  return { text: `${sentence}; largest kind in the queue: ${kindText(kind)} (${number}).`, deadLetterKind: kind.id };
}

/**
 * Ends a sentence with the kind that grew most in the last hour, as the page shows it. Returns undefined if the queue did not
 * grow, or the history does not show the kind.
 */
export function withGrowingKind(input: CheckInput, sentence: string): Finding | undefined {
  const { all = 0, kinds = [], overSeconds = 0 } = kindChanges(input) ?? {};
  const [first] = kinds.toSorted((a, b) => (b.by ?? 0) - (a.by ?? 0));
  if (first?.by === undefined || first.by <= 0 || all <= 0) return undefined;
  const { kind, by } = first;
  // A kind with unknown growth, or a kind that is not shown, has grown by at most its size.
  const isHidden = (input.shown.dlq?.now?.kinds.count ?? 0) > kinds.length;
  const unknown = [...kinds.filter(each => each.by === undefined), ...(isHidden ? kinds.slice(-1) : [])];
  if (2 * by <= all && unknown.some(each => each.kind.messages > by)) return undefined;
  const number = `+${count(by)}${by <= all ? ` of +${count(all)}` : ''}`;
  const text = `${sentence}; fastest growing kind of dead letters ${within(overSeconds)}: ${kindText(kind)} (${number}).`;
  return { text, deadLetterKind: kind.id };
}

const defineCheck = checksOf('dlq');

/** Returns the facts of the queue: its shown sizes and times, and its committed counts. */
const queueOf = ({ shown: { dlq } }: CheckInput) => {
  const { messages, oldestEntered } = dlq?.now?.selections.get('all') ?? {};
  return { messages, oldestEntered, counted: dlq?.committed?.selections.get('all') };
};

/** Earlier period. The current size is compared with the largest size in it. A queue drained every hour peaks in this period. */
const BEFORE = { from: 90 * MINUTE, to: 10 * MINUTE } as const;
/** Time for which a size must last to count as settled (ms). */
const SETTLED_FOR = 15 * MINUTE;
/** Hourly series: the highest settled size in the last hour. */
export const SETTLED = '!dlq_settled';

/** Returns the settled size at `at`: the smallest size in the `SETTLED_FOR` before; undefined if it is unknown. */
const settledAt = (points: readonly Point[], at: number) => min(between(points, at - SETTLED_FOR, at));

/** Returns the highest settled size of a part of the last 75 minutes; undefined if it is unknown. */
export function highestSettled({ recent }: Pick<CheckInput, 'recent'>, from: number, to: number): number | undefined {
  const points = recent(dlqFamilies.messages.name, BEFORE.from);
  const sizes = between(points, from, to).flatMap(({ at }) => settledAt(points, at) ?? []);
  return sizes.length === 0 ? undefined : Math.max(...sizes);
}

/**
 * Returns the highest settled size between four hours and one hour ago, so that a queue that is retried in bulk and fills again
 * does not count as growing. If it is unknown, returns the last known settled size of the last 24 hours.
 */
function settledHourAgo(input: CheckInput): number | undefined {
  const { recent, now } = input;
  const hourly = recent(SETTLED, DAY).filter(({ at }) => at <= now - HOUR);
  const known = [
    highestSettled(input, now - 75 * MINUTE, now - HOUR) ?? [],
    ...between(hourly, now - 4 * HOUR, now).map(({ value }) => value),
  ].flat();
  return known.length === 0 ? hourly.at(-1)?.value : Math.max(...known);
}

type Grown = { readonly by: number; readonly overSeconds: number } | 'none' | 'unknown';

/** Returns the growth of the settled size in one or six hours. `isHighest`: whether the queue has reached its earlier maximum. */
function growthOfHours(input: CheckInput, { size, isKnown }: Settled, isHighest: boolean): Grown {
  const { recent, now } = input;
  const before = settledHourAgo(input);
  const hasGrownFrom = (earlier: number) => DLQ_BY_THE_HOUR.some(limit => isMoreBy(limit, size, earlier));
  // If the size an hour ago is unknown, growth can be ruled out only if even growth from 0 would be too small.
  if (isHighest && hasGrownFrom(before ?? 0)) {
    return before === undefined || !isKnown ? 'unknown' : { by: size - before, overSeconds: 3600 };
  }
  const earlier = recent(SETTLED, DAY).findLast(({ at }) => at <= now - 6 * HOUR);
  if (!earlier || !isMoreBy(DLQ_BY_SIX_HOURS, size, earlier.value) || size <= (before ?? 0)) return 'none';
  return isKnown ? { by: size - earlier.value, overSeconds: (now - earlier.at) / 1000 } : 'unknown';
}

/** Current settled size, or an upper limit if it is unknown. */
interface Settled {
  readonly size: number;
  readonly isKnown: boolean;
}

/**
 * Returns the growth of the queue and its duration. The size of any queue is a sawtooth curve, because removals appear only after
 * the next complete walk. So sudden growth, and growth over an hour, count only if the size reaches the maximum from 90 to 10
 * minutes ago or, with a shorter history, its first point. Growth over one or six hours is that of the settled size.
 */
function growth(input: CheckInput, messages: number): Grown {
  const { recent, now } = input;
  const points = recent(dlqFamilies.messages.name, BEFORE.from);
  const [first] = points;
  if (!first || now - first.at < MINUTE) return 'unknown';
  const earlier = points.filter(({ at }) => at <= now - BEFORE.to);
  const high = (earlier.length > 0 ? earlier : [first]).reduce((a, b) => (b.value >= a.value ? b : a));
  if (isMoreBy(DLQ_AT_ONCE, messages, high.value)) {
    return { by: messages - high.value, overSeconds: (now - high.at) / 1000 };
  }
  const settled = settledAt(upTo(points, { at: now, value: messages }), now);
  const isHighest = messages > high.value || (messages === high.value && (settled ?? messages) === messages);
  return growthOfHours(input, { size: settled ?? messages, isKnown: settled !== undefined }, isHighest);
}

/** Finds entries in a queue that was empty within the last hour. */
function firstEntry(input: CheckInput, messages: number): Findings {
  const { recent, now } = input;
  if (messages === 0) return [];
  const points = recent(dlqFamilies.messages.name, HOUR);
  const [first] = points;
  const empty = points.findLast(({ value }) => value === 0);
  // After an outage of the agent, the last known size counts.
  const isShort = first === undefined || first.at > now - HOUR + 2 * MINUTE;
  const last = isShort && !empty ? recent(SETTLED, DAY).findLast(({ at }) => at <= now - HOUR) : undefined;
  if (!empty && last?.value !== 0) return isShort && !last ? UNKNOWN : [];
  const ago = durationText((now - (empty ?? last ?? { at: now }).at) / 1000);
  return withLargestKind(input, `${plural(messages, 'dead letter')} in a queue that was empty ${ago} ago`);
}

/** Returns the highest of several counts of stuck failure callbacks: by the default evidence, and by each auto-cancel rule. */
function stuck({ shown, autoCancel }: CheckInput): { number: number; rule: string | undefined } {
  const byDefault = { number: shown.dlq?.now?.suspected ?? 0, rule: undefined };
  const byRule = [...(autoCancel?.candidates ?? [])].map(([rule, number]) => ({ number, rule }));
  return [byDefault, ...byRule].reduce((a, b) => (b.number > a.number ? b : a));
}

/** Returns the oldest entry's age at the last complete walk (ms) and since when it exceeds `RETENTION_EXCEEDED`, if it does. */
function exceededRetention(input: CheckInput) {
  const { retention, rounds } = input;
  const entered = toAgentTime(input, queueOf(input).oldestEntered);
  const walkedAt = rounds.find(({ collector, round }) => collector === 'dlq' && round === 'full')?.dataAt;
  if (retention === undefined || entered === undefined || walkedAt === undefined) return undefined;
  const since = entered + RETENTION_EXCEEDED * retention;
  return walkedAt > since ? { age: walkedAt - entered, since, retention } : undefined;
}

export const DEAD_LETTERS: readonly AccountCheck[] = [
  defineCheck('dlq_growing', 'DeliveryDlqGrowing', {
    for: 2 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    when: `the queue has grown according to one of three comparisons. In each, the increase exceeds a limit, which is a percentage of an earlier size. (1) Largest size from ${longText(BEFORE.from)} to ${longText(BEFORE.to)} ago: ${growthText(DLQ_AT_ONCE)}. (2) Largest size from four hours to one hour ago: ${DLQ_BY_THE_HOUR.map(growthText).join('; or ')}. The queue is also at least as large as the largest size from ${longText(BEFORE.from)} to ${longText(BEFORE.to)} ago. (3) Size six hours ago: ${growthText(DLQ_BY_SIX_HOURS)}. The queue also exceeds its largest size from four hours to one hour ago. Comparisons 2 and 3 ignore sizes that lasted for less than ${longText(SETTLED_FOR)}. If the largest size before the last hour is unknown, the agent uses the last known size`,
    check(input) {
      const { messages, counted } = queueOf(input);
      const grown = messages === undefined ? 'unknown' : growth(input, messages);
      if (grown === 'none') return [];
      if (grown === 'unknown' || messages === undefined) return UNKNOWN;
      const rise = input.changes.rise(dlqFamilies.entered.name, counted?.entered, HOUR);
      const start = rise
        ? `${plural(rise.by, 'dead letter')} entered ${within(rise.overSeconds)}; the queue grew`
        : 'The dead-letter queue grew';
      // Like the page, report growth of an hour by current sizes, not by settled sizes.
      const hour = input.changes.change(dlqFamilies.messages.name, messages, HOUR);
      const { by, overSeconds } = grown.overSeconds === 3600 && hour && hour.by > 0 ? hour : grown;
      const sentence = `${start} by ${count(by)} to ${count(messages)} ${within(overSeconds)}`;
      return withGrowingKind(input, sentence) ?? withLargestKind(input, sentence);
    },
  }),
  defineCheck('dlq_expiring', 'DeliveryDlqExpiringSoon', {
    severity: 'critical',
    for: 15 * MINUTE,
    when: `the longest-queued message has been in the queue for more than ${percent(DLQ_EXPIRING)} of the retention. There is no alert if, so far, more messages have expired than were removed. After ${percent(RETENTION_EXCEEDED)} of the retention, \`retention_too_short\` replaces this problem`,
    check(input) {
      const { serviceNow: now, retention } = input;
      if (exceededRetention(input)) return [];
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
  defineCheck('retention_too_short', 'DeliveryDlqExpiringSoon', {
    for: 15 * MINUTE,
    when: `at the last complete walk, the longest-queued message had been in the queue for more than ${RETENTION_EXCEEDED} times the retention`,
    check(input) {
      const exceeded = exceededRetention(input);
      if (!exceeded) return [];
      const [queued, retention] = durationTexts(exceeded.age / 1000, exceeded.retention / 1000);
      const text = `The longest-queued dead letter has been in the queue for ${queued}, longer than its retention of ${retention}: correct \`retention.dlq\`, or the expiry of dead letters cannot be predicted.`;
      return { since: exceeded.since, text };
    },
  }),
  defineCheck('dlq_first_entry', 'DeliveryDeadLetters', {
    isOff: true,
    when: 'the queue contains messages, but was empty at some time in the last hour. After an outage of the agent, the last size before the outage counts instead',
    check(input) {
      const { messages } = queueOf(input);
      return messages === undefined ? UNKNOWN : firstEntry(input, messages);
    },
  }),
  defineCheck('dlq_old', 'DeliveryDeadLetters', {
    for: 15 * MINUTE,
    isOff: true,
    when: 'the longest-queued message has been in the queue for longer than `objectives.dlqMaxAge`',
    check(input) {
      const { serviceNow: now, settings } = input;
      const { dlqMaxAge } = settings.objectives;
      const { messages, oldestEntered: entered } = queueOf(input);
      if (entered === undefined) return messages === 0 ? [] : UNKNOWN;
      if (now - entered <= dlqMaxAge) return [];
      const which = messages === undefined ? 'dead letter' : `of ${plural(messages, 'dead letter')}`;
      const [age, objective] = durationTexts((now - entered) / 1000, dlqMaxAge / 1000);
      const sentence = `The longest-queued ${which} has been in the queue for ${age} (objective: ${objective})`;
      return { since: toAgentTime(input, entered + dlqMaxAge), ...withLargestKind(input, sentence) };
    },
  }),
  defineCheck('dlq_nearly_full', 'DeliveryDlqExpiringSoon', {
    for: 15 * MINUTE,
    readsSize: true,
    when: `the queue contains more than ${percent(DLQ_FULL)} of the messages that the plan allows`,
    check(input) {
      const { maxDeadLetters: most } = input;
      const { messages } = queueOf(input);
      if (most === undefined) return [];
      if (messages === undefined) return UNKNOWN;
      if (messages <= DLQ_FULL * most) return [];
      if (messages > most)
        return `The dead-letter queue holds ${plural(messages, 'message')}, more than its limit of ${count(most)}: it is full, or the limit is wrong.`;
      return `The dead-letter queue holds ${count(messages)} of the ${count(most)} messages that the plan allows (${percent(messages / most)}).`;
    },
  }),
  defineCheck('callbacks_stuck', 'DeliveryFailureCallbackStuck', {
    for: 15 * MINUTE,
    // After a restart, auto-cancel evaluates its rules shortly after the walk.
    keepFiringFor: 2 * MINUTE,
    when: 'failure callbacks have been in progress for longer than all their retries can take. Or failure callbacks are stuck according to an auto-cancel rule',
    check(input) {
      const { number, rule } = stuck(input);
      const { suspected, oldestInProgress: since } = input.shown.dlq?.now ?? {};
      if (number === 0) return suspected === undefined ? UNKNOWN : [];
      const oldest = since === undefined ? '' : `, the oldest for ${durationText((input.now - since) / 1000)}`;
      const by = rule === undefined ? '' : ` according to the rule ${rule}`;
      const text = `${plural(number, 'failure callback seems', 'failure callbacks seem')} stuck${by}${oldest}.`;
      return { since, text };
    },
  }),
];
