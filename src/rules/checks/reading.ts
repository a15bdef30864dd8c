import { collectorTitle, isDeciding, isOptional, shownFilters } from '../../collectors/index.ts';
import { seriesName } from '../../history/series-name.ts';
import { MAX_CLOCK_CORRECTION } from '../../kit/clock.ts';
import { MINUTE } from '../../kit/duration.ts';
import type { Family } from '../../metrics/family.ts';
import { type KeptCounter, ownFamilies } from '../../metrics/own.ts';
import {
  BLIND_FOR,
  CLOCK_SKEW,
  FILTER_WALKS,
  LISTS_MISSING,
  RATE_LIMITED,
  RECENT_REQUESTS,
  REQUESTS_LAST,
} from '../../metrics/thresholds.ts';
import { serviceErrorIn } from '../../upstream/errors.ts';
import { KEPT_FOR_ACTIONS } from '../../upstream/options.ts';
import type { CheckInput } from './account.ts';
import {
  type AccountCheck,
  checksOf,
  covers,
  defineCheck,
  type Finding,
  type Findings,
  intervalOf,
  KEEP_FIRING_FOR,
  UNKNOWN,
  type Unknown,
} from './check.ts';
import type { CheckedRound } from './rounds.ts';
import { clockTime, count, durationText, inLast, longText, percent, plural } from './words.ts';

const isAuxiliary = ({ collector, round }: CheckedRound) => !isDeciding(collector, round);

/** Returns the rounds that show whether the service is readable. The collector `account` reads a local record. */
const polled = ({ rounds }: CheckInput) =>
  rounds.filter(({ collector }) => collector !== 'account' && !isOptional(collector));

/** Returns the rounds that gauges depend on. */
const deciding = (input: CheckInput) => polled(input).filter(round => !isAuxiliary(round));

const isUntried = ({ dataAt, failure }: CheckedRound) => dataAt === undefined && failure === undefined;

/**
 * Returns each collector's most frequent round among those that gauges depend on: it detects an outage first. Prefers rounds that
 * have been tried, because others may wait for them.
 */
function pulses(input: CheckInput): CheckedRound[] {
  const active = deciding(input).filter(({ state }) => state !== 'waiting');
  return [...Map.groupBy(active, ({ collector }) => collector).values()].map(rounds => {
    const isFirst = (a: CheckedRound, b: CheckedRound) =>
      isUntried(a) === isUntried(b) ? a.every <= b.every : isUntried(b);
    return rounds.reduce((a, b) => (isFirst(a, b) ? a : b));
  });
}

const isStale = ({ state }: CheckedRound) => state === 'stale' || state === 'withdrawn';

/** Returns the start of the newest complete round; undefined if none has completed since the agent started. */
function newestOf(rounds: readonly CheckedRound[]): number | undefined {
  const times = rounds.flatMap(({ dataAt }) => dataAt ?? []);
  return times.length === 0 ? undefined : Math.max(...times);
}

const lastRead = (input: CheckInput) => newestOf(polled(input));

const ofCollector = ({ rounds }: CheckInput, collector: string) =>
  rounds.filter(round => round.collector === collector);

/** Returns the time of the oldest shown data. If a collector's most frequent round has not completed, its other rounds count. */
function oldestShownAt(input: CheckInput): number | undefined {
  const newest = pulses(input).flatMap(
    round => newestOf([round]) ?? newestOf(ofCollector(input, round.collector)) ?? [],
  );
  return newest.length === 0 ? undefined : Math.min(...newest);
}

function shownDataText(input: CheckInput): string {
  const { now } = input;
  const time = oldestShownAt(input);
  if (time === undefined) return 'nothing has been read since the agent started';
  const isGone = pulses(input).every(({ state }) => state === 'withdrawn');
  return isGone
    ? `no data is shown, because the last data is from ${clockTime(time, now)}`
    : `the shown data is from ${clockTime(time, now)}`;
}

/** Returns when the first of these rounds is attempted again; undefined if none waits for its next attempt. */
function retryOf(rounds: readonly CheckedRound[], now: number): number | undefined {
  const times = rounds.flatMap(({ retryAt }) => retryAt ?? []).filter(time => time > now);
  return times.length === 0 ? undefined : Math.min(...times);
}

const serviceError = ({ failure }: CheckedRound) => serviceErrorIn(failure?.message ?? '');

/** Reasons for the failure of a round that show an outage of the service or of the network. */
const OUTAGES: ReadonlySet<string> = new Set(['server', 'timeout', 'network']);

/** Describes the latest failure. Earlier ones of the same outage may have had another reason. */
function outageText(round: CheckedRound): string {
  const { reason, message = '' } = round.failure ?? {};
  if (reason === 'timeout') return 'The service does not respond in time';
  if (reason === 'network') return `The service is unreachable (${message.split(': ').at(-1)})`;
  const status = /status (5\d\d)/.exec(message)?.[1] ?? 'errors';
  const why = serviceError(round);
  return `The service returns ${status}${why === undefined ? '' : ` (${why})`}`;
}

/**
 * Returns a round that failed because the service is unavailable. All collectors must be failing, and at least one must have stale
 * data, or no data after two failures.
 */
function outage(input: CheckInput) {
  const all = pulses(input);
  if (all.length === 0 || !all.every(({ consecutiveFailures }) => consecutiveFailures > 0)) return undefined;
  if (!all.some(round => isStale(round) || (round.dataAt === undefined && round.consecutiveFailures > 1)))
    return undefined;
  return all.find(({ failure }) => failure && OUTAGES.has(failure.reason));
}

/** Whether nothing of the account can be read. Findings about its parts would then only repeat that. */
const isUnreadable = (input: CheckInput) =>
  input.isTokenRejected === true || outage(input) !== undefined || input.notOpened !== undefined;

/** Whether a round has not completed since the agent started, although it has something to read. */
const isUnread = ({ dataAt, state }: CheckedRound) =>
  dataAt === undefined && state !== 'not_due' && state !== 'waiting';

const unknownFor = (rounds: readonly CheckedRound[]): Unknown[] =>
  [...new Set(rounds.map(({ collector }) => collector))].map(subject => ({ subject, isUnknown: true }));

/** Returns collectors with an unread round that gauges depend on. */
const unread = (input: CheckInput) => unknownFor(deciding(input).filter(isUnread));

function staleData(input: CheckInput, kind: 'data_stale' | 'data_withdrawn', state: CheckedRound['state']): Findings {
  const { now } = input;
  if (isUnreadable(input)) return UNKNOWN;
  const stale = deciding(input).filter(round => round.state === state);
  // Withdrawn data is stale, too: the alert about stale data must not be resolved.
  const withdrawn = deciding(input).filter(round => kind === 'data_stale' && round.state === 'withdrawn');
  const found = [...Map.groupBy(stale, ({ collector }) => collector)].map(([collector, rounds]): Finding => {
    // Other rounds may have read the shown data.
    const since = newestOf(rounds) ?? newestOf(ofCollector(input, collector));
    const read =
      since === undefined ? 'have not been read since the agent started' : `were last read at ${clockTime(since, now)}`;
    const why = rounds.find(({ failure }) => failure)?.failure?.message;
    const gone = kind === 'data_withdrawn' && since !== undefined ? ' and are no longer shown' : '';
    const reason = why === undefined ? '' : `: ${why}`;
    const text = `${collectorTitle(collector)} ${read}${gone}${reason}.`;
    return { subject: collector, since, warningFor: BLIND_FOR, text, retryAt: retryOf(rounds, now) };
  });
  return [...found, ...unread(input), ...unknownFor(withdrawn)];
}

/**
 * Returns a counter's increase within `RECENT_REQUESTS` for each value of a label. `isCovered`: this process counted for all of that
 * time; `isAll`: it counted nothing before.
 */
function risen<L extends string>({ changes }: CheckInput, family: Family<L>, counter: KeptCounter<L>, label: L) {
  return [...counter.totalsBy(label)].map(([value, total]) => {
    const rise = changes.riseInProcess(seriesName(family.name, { [label]: value }), total, RECENT_REQUESTS);
    return { value, ...rise, isCovered: covers(rise, RECENT_REQUESTS), isAll: rise.by === total };
  });
}

/** Describes responses without a usable list. */
const withoutList = ({ by, isAll, duration, collector }: RowsOrLists) =>
  `${isAll ? 'At least ' : ''}${plural(by, 'response')} for ${collector} in ${duration} contained no usable list`;

/** Whether the round’s last response contained no usable list. */
const isWithoutList = ({ failure }: CheckedRound) => failure?.reason === 'invalid_response';

interface RowsOrLists {
  /** Number counted in the window `duration`. `isAll`: an earlier process may have counted more. */
  readonly by: number;
  readonly isAll: boolean;
  readonly duration: string;
  readonly collector: string;
}

/**
 * Checks each collector for a fault of its last reads, which `nowText` describes; `info` for optional ones. After complete reads, a
 * fault of the last 15 minutes is `info` and described in the past tense. `fewest`: number of faults from which it is reported.
 */
function inReads(
  input: CheckInput,
  [family, counter, fewest]: readonly [Family<'collector'>, KeptCounter<'collector'>, number],
  nowText: (found: RowsOrLists) => string | undefined,
  pastText: (found: RowsOrLists) => string,
): Findings {
  return risen(input, family, counter, 'collector').flatMap(({ value: subject, by, overSeconds, isCovered, isAll }) => {
    const found = { by, isAll, duration: durationText(overSeconds), collector: subject };
    const text = nowText(found);
    if (text !== undefined) return { subject, text, ...(isOptional(subject) && { severity: 'info' as const }) };
    if (by >= fewest && isComplete(ofCollector(input, subject)))
      return { subject, severity: 'info' as const, text: pastText(found) };
    return by < fewest && isCovered ? [] : { subject, isUnknown: true as const };
  });
}

/** Whether the last reads of all rounds were complete. */
const isComplete = (rounds: readonly CheckedRound[]) =>
  rounds.some(({ state }) => state === 'ok') &&
  rounds.every(round => !isStale(round) && round.state !== 'failing' && round.state !== 'partial');

/** Reasons for the failure of a filter that are often temporary. */
const PASSING: ReadonlySet<string> = new Set(['server', 'timeout', 'network', 'rate_limited', 'unauthorized']);

const BLIND = { severity: 'critical', for: 30_000 } as const;

export const READING: readonly AccountCheck[] = [
  defineCheck('token_rejected', 'DeliveryTokenRejected', {
    severity: 'critical',
    // Longer than the rotation of a token takes.
    for: 3 * MINUTE,
    when: 'the service rejects the token with status 401',
    check(input) {
      const { isTokenRejected } = input;
      if (isTokenRejected !== true) return isTokenRejected === undefined ? UNKNOWN : [];
      const rejected = polled(input).filter(({ failure }) => failure?.reason === 'unauthorized');
      const [why] = rejected.flatMap(round => serviceError(round) ?? []);
      const status = why === undefined ? '401' : `401: ${why}`;
      return { since: lastRead(input), text: `The service rejects the token (${status}); ${shownDataText(input)}.` };
    },
  }),
  defineCheck('service_unavailable', 'DeliveryBlind', {
    ...BLIND,
    when: `all collectors fail, at least one of them with a 5xx response, a timeout or a network error, and data is stale. For the first ${longText(BLIND_FOR)}, the severity is \`warning\``,
    check(input) {
      const { now } = input;
      if (input.isTokenRejected === true) return UNKNOWN;
      const failed = outage(input);
      if (!failed) {
        const isAnyRead = pulses(input).some(round => round.dataAt !== undefined && round.consecutiveFailures === 0);
        return isAnyRead || !pulses(input).some(isUnread) ? [] : UNKNOWN;
      }
      const since = lastRead(input);
      const lasts = since === undefined ? 0 : now - since;
      const unread = lasts < 1000 ? '' : `: nothing has been read for ${durationText(lasts / 1000)}`;
      const text = `${outageText(failed)}${unread}; ${shownDataText(input)}.`;
      return { since, warningFor: BLIND_FOR, text, retryAt: retryOf(polled(input), now) };
    },
  }),
  defineCheck('data_withdrawn', 'DeliveryBlind', {
    ...BLIND,
    when: 'the agent has withdrawn the stale data of a collector (`staleness.withdrawAfter`)',
    check: input => staleData(input, 'data_withdrawn', 'withdrawn'),
  }),
  defineCheck('data_stale', 'DeliveryBlind', {
    ...BLIND,
    when: `the data of a collector is stale (\`staleness.markAfter\`), or the agent could not open the account. For the first ${longText(BLIND_FOR)} of stale data, the severity is \`warning\``,
    check(input) {
      const { notOpened } = input;
      if (!notOpened) return staleData(input, 'data_stale', 'stale');
      const text = `No data is read: the account could not be opened: ${notOpened.reason}. The agent retries automatically.`;
      return { since: notOpened.since, text };
    },
  }),
  defineCheck('round_stale', 'DeliveryDataIncomplete', {
    for: 15 * MINUTE,
    when: 'a round that no gauge depends on is stale: `sweep` (delayed events) or `watch` (single flow-control keys)',
    check(input) {
      if (isUnreadable(input)) return UNKNOWN;
      return polled(input)
        .filter(isAuxiliary)
        .flatMap((each): Finding | Unknown | [] => {
          const { collector, round, dataAt, failure } = each;
          const of = { subject: `${collector} ${round}` };
          if (!isStale(each)) return isUnread(each) ? { ...of, isUnknown: true } : [];
          // Another check reports that gauges are not current either.
          if (deciding(input).some(other => other.collector === collector && isStale(other)))
            return { ...of, isUnknown: true };
          const last = dataAt === undefined ? '' : ` since ${clockTime(dataAt, input.now)}`;
          const why = failure ? `: ${failure.message}` : '';
          const text = `The round ${round} of ${collector} has not completed${last}; all gauges are current${why}.`;
          return { ...of, since: dataAt, text, retryAt: retryOf([each], input.now) };
        });
    },
  }),
  defineCheck('rate_limited', 'DeliveryReadingThrottled', {
    for: 10 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    when: `${inLast(RECENT_REQUESTS)}, at least ${RATE_LIMITED.fewest} requests got status 429, and these were more than ${percent(RATE_LIMITED.share)} of all requests`,
    check(input) {
      const outcomes = risen(input, ownFamilies.requests, input.meter.requests, 'outcome');
      const limited = outcomes.find(({ value }) => value === 'rate_limited');
      const all = outcomes.reduce((sum, { by }) => sum + by, 0);
      if (!limited) return [];
      if (limited.by < RATE_LIMITED.fewest || limited.by <= RATE_LIMITED.share * all)
        return limited.isCovered ? [] : UNKNOWN;
      const isAll = outcomes.every(each => each.isAll);
      const lately = isAll ? 'since the agent started' : `in ${durationText(limited.overSeconds)}`;
      return `${count(limited.by)} of the ${count(all)} requests ${lately} got 429 (${percent(limited.by / all)}).`;
    },
  }),
  defineCheck('budget_low', 'DeliveryReadingThrottled', {
    for: 15 * MINUTE,
    when: `the remaining requests of \`budget.requestsPerDay\` are fewer than ${percent(REQUESTS_LAST)} of the number that an even distribution over the UTC day would leave. The ${percent(KEPT_FOR_ACTIONS)} that are reserved for auto-cancel do not count as remaining`,
    check({ budgetRemaining: left, settings, now }) {
      const { requestsPerDay: all } = settings.budget;
      if (left === undefined) return UNKNOWN;
      const dayLeft = 1 - (now % 86_400_000) / 86_400_000;
      if (all === 0 || left / all - KEPT_FOR_ACTIONS >= REQUESTS_LAST * dayLeft) return [];
      return `Only ${count(left)} of today’s ${count(all)} requests are left until 00:00 UTC, so rounds are delayed.`;
    },
  }),
  defineCheck('clock_skew', 'DeliveryClockSkew', {
    for: 2 * MINUTE,
    keepFiringFor: 2 * MINUTE,
    when: `the service’s clock and the agent’s clock differ by more than ${longText(CLOCK_SKEW)}`,
    check({ clockSkew }) {
      if (clockSkew === undefined) return UNKNOWN;
      const skew = Math.abs(clockSkew);
      if (skew <= CLOCK_SKEW) return [];
      const difference = `${durationText(skew / 1000)} ${clockSkew > 0 ? 'ahead of' : 'behind'}`;
      const isUsed = skew <= MAX_CLOCK_CORRECTION;
      return `The service’s clock is ${difference} the agent’s: its data is evaluated by the ${isUsed ? 'service’s clock' : 'agent’s clock, because the difference exceeds a day'}.`;
    },
  }),
  defineCheck('rows_unreadable', 'DeliveryDataIncomplete', {
    for: 5 * MINUTE,
    when: `the last read of a list found rows or values that the agent could not read. After the next complete read, the severity is \`info\` for up to ${longText(RECENT_REQUESTS)}`,
    check: input =>
      inReads(
        input,
        [ownFamilies.rowsRejected, input.meter.rowsRejected, 1],
        ({ collector }) => {
          if (input.dataOf(collector).data !== 'partial') return undefined;
          const partial = ofCollector(input, collector).filter(({ state }) => state === 'partial');
          const time = newestOf(partial);
          const at = time === undefined ? '' : ` at ${clockTime(time, input.now)}`;
          return `Some rows of ${collector} could not be read completely${at}: the shown data is incomplete.`;
        },
        ({ collector, duration }) =>
          `Some rows of ${collector} could not be read completely in ${duration}; the last read was complete.`,
      ),
  }),
  checksOf('dlq')('filter_failing', 'DeliveryDataIncomplete', {
    for: 15 * MINUTE,
    when: `the service rejects a filter, or returns rows that do not match the filter. A temporary error counts only after ${FILTER_WALKS} times \`dlq.rescanEvery\``,
    check: input =>
      input.dataOf('dlq').failedFilters.flatMap(({ name, reason, message, since, isContradicted }) => {
        const isYoung = input.now - since < FILTER_WALKS * intervalOf(input, 'dlq', 'full');
        if (isYoung && PASSING.has(reason)) return [];
        const messages = shownFilters(input.shown.dlq?.now?.selections ?? new Map()).get(name)?.messages;
        const known = messages === undefined ? 'unknown' : `from before ${clockTime(since, input.now)}`;
        const shown = isContradicted ? 'its data is not shown' : `its size is ${known}`;
        return { subject: name, since, text: `The filter ${name} fails: ${message}; ${shown}.` };
      }),
  }),
  defineCheck('lists_missing', 'DeliveryDataIncomplete', {
    for: 5 * MINUTE,
    when: `at least ${LISTS_MISSING} responses ${inLast(RECENT_REQUESTS)}, including the last one, contained no usable list. After the next complete read, the severity is \`info\` for up to ${longText(RECENT_REQUESTS)}`,
    check: input =>
      inReads(
        input,
        [ownFamilies.listsMissing, input.meter.listsMissing, LISTS_MISSING],
        found => {
          const { by, collector } = found;
          const rounds = ofCollector(input, collector);
          if (by < LISTS_MISSING || !rounds.some(isWithoutList)) return undefined;
          const data = input.dataOf(collector).data;
          const shown = data === 'withdrawn' || data === 'not_read' ? 'no data is shown' : 'older data is shown';
          return `${withoutList(found)}; ${shown}.`;
        },
        found => `${withoutList(found)}; the last read was complete.`,
      ),
  }),
];
