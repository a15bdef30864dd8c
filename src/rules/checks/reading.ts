import { collectorTitle, isDeciding, isOptional, shownFilters } from '../../collectors/index.ts';
import { seriesName } from '../../history/series-name.ts';
import { MAX_CLOCK_CORRECTION } from '../../kit/clock.ts';
import { MINUTE } from '../../kit/duration.ts';
import { ownFamilies } from '../../metrics/own.ts';
import {
  BLIND_FOR,
  CLOCK_SKEW,
  FILTER_WALKS,
  RATE_LIMITED,
  RECENT_REQUESTS,
  REQUESTS_LAST,
} from '../../metrics/thresholds.ts';
import { serviceErrorIn } from '../../upstream/errors.ts';
import { KEPT_FOR_ACTIONS } from '../../upstream/options.ts';
import { type CheckedRound, type CheckInput, newestOf } from './account.ts';
import {
  type AccountCheck,
  checksOf,
  covers,
  defineCheck,
  eachOf,
  type Finding,
  type Findings,
  KEEP_FIRING_FOR,
  UNKNOWN,
  type Unknown,
} from './check.ts';
import { clockTime, count, durationText, inLast, longText, percent, within } from './words.ts';

const isAuxiliary = ({ collector, round }: CheckedRound) => !isDeciding(collector, round);

/** Returns the rounds that show whether the service is readable. The collector `account` reads a local record. */
const polled = ({ rounds }: CheckInput) =>
  rounds.filter(({ collector }) => collector !== 'account' && !isOptional(collector));

/** Returns the rounds that gauges depend on. */
const deciding = (input: CheckInput) => polled(input).filter(round => !isAuxiliary(round));

const isUntried = ({ dataAt, failure }: CheckedRound) => dataAt === undefined && failure === undefined;

/**
 * Returns each collector's most frequent round on which gauges depend, because it detects an outage first. Prefers rounds that
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

const lastRead = (input: CheckInput) => newestOf(polled(input));

const ofCollector = ({ rounds }: CheckInput, collector: string) =>
  rounds.filter(round => round.collector === collector);

function unreadText(input: CheckInput): string {
  const time = lastRead(input);
  return time === undefined
    ? 'nothing has been read since the agent started'
    : `nothing has been read for ${durationText((input.now - time) / 1000)}`;
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

/** Whether no data of the account can be read. Findings about its parts would then only repeat that. */
const isUnreadable = (input: CheckInput) =>
  input.isTokenRejected === true || outage(input) !== undefined || input.notOpened !== undefined;

/** Whether a round has not completed since the agent started, although it has something to read. */
const isUnread = ({ dataAt, state }: CheckedRound) =>
  dataAt === undefined && state !== 'not_due' && state !== 'waiting';

const unknownFor = (rounds: readonly CheckedRound[]): Unknown[] =>
  [...new Set(rounds.map(({ collector }) => collector))].map(subject => ({ subject, isUnknown: true }));

function staleData(input: CheckInput): Findings {
  const { now } = input;
  if (isUnreadable(input)) return UNKNOWN;
  const found = [...Map.groupBy(deciding(input).filter(isStale), ({ collector }) => collector)].map(
    ([collector, rounds]): Finding => {
      // Other rounds may have read the shown data.
      const since = newestOf(rounds) ?? newestOf(ofCollector(input, collector));
      const read =
        since === undefined
          ? 'have not been read since the agent started'
          : `were last read at ${clockTime(since, now)}`;
      const why = rounds.find(({ failure }) => failure)?.failure?.message;
      const isGone = since !== undefined && rounds.some(({ state }) => state === 'withdrawn');
      const text = `${collectorTitle(collector)} ${read}${isGone ? ' and are no longer shown' : ''}${why === undefined ? '' : `: ${why}`}.`;
      return { subject: collector, since, text };
    },
  );
  return [...found, ...unknownFor(deciding(input).filter(isUnread))];
}

/** Often temporary reasons for the failure of a filter. */
const PASSING: ReadonlySet<string> = new Set(['server', 'timeout', 'network', 'rate_limited', 'unauthorized']);

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
      return { since: lastRead(input), text: `The service rejects the token (${status}): ${unreadText(input)}.` };
    },
  }),
  defineCheck('service_unavailable', 'DeliveryBlind', {
    severity: 'critical',
    for: BLIND_FOR,
    when: 'all collectors fail, at least one of them with a 5xx response, a timeout or a network error, and data is stale',
    check(input) {
      if (input.isTokenRejected === true) return UNKNOWN;
      const failed = outage(input);
      if (!failed) {
        const isAnyRead = pulses(input).some(round => round.dataAt !== undefined && round.consecutiveFailures === 0);
        return isAnyRead || !pulses(input).some(isUnread) ? [] : UNKNOWN;
      }
      return { since: lastRead(input), text: `${outageText(failed)}: ${unreadText(input)}.` };
    },
  }),
  defineCheck('data_stale', 'DeliveryBlind', {
    severity: 'critical',
    for: BLIND_FOR,
    when: 'the data of a collector is stale (`staleness.markAfter`) or withdrawn (`staleness.withdrawAfter`), or the agent could not open the account',
    check(input) {
      const { notOpened } = input;
      if (!notOpened) return staleData(input);
      const text = `No data is read: the account could not be opened: ${notOpened.reason}. The agent retries automatically.`;
      return { since: notOpened.since, text };
    },
  }),
  defineCheck('round_stale', 'DeliveryDataIncomplete', {
    for: 15 * MINUTE,
    when: 'a round that no gauge depends on is stale: `sweep` (delayed events) or `watch` (single flow-control keys)',
    check: eachOf(
      input => polled(input).filter(isAuxiliary),
      ({ collector, round }) => `${collector} ${round}`,
      (input, each) => {
        const { collector, round, dataAt: since, failure } = each;
        if (isUnreadable(input)) return 'unknown';
        if (!isStale(each)) return isUnread(each) && 'unknown';
        // Another check already reports that the gauges are not current.
        if (deciding(input).some(other => other.collector === collector && isStale(other))) return 'unknown';
        const last = since === undefined ? '' : ` since ${clockTime(since, input.now)}`;
        const why = failure ? `: ${failure.message}` : '';
        const text = `The round ${round} of ${collector} has not completed${last}; all gauges are current${why}.`;
        return { since, text };
      },
    ),
  }),
  defineCheck('rate_limited', 'DeliveryReadingThrottled', {
    for: 10 * MINUTE,
    keepFiringFor: KEEP_FIRING_FOR,
    when: `${inLast(RECENT_REQUESTS)}, at least ${RATE_LIMITED.fewest} requests got status 429, and these were more than ${percent(RATE_LIMITED.share)} of all requests`,
    check({ changes, meter }) {
      const outcomes = [...meter.requests.totalsBy('outcome')].map(([outcome, total]) => {
        const series = seriesName(ownFamilies.requests.name, { outcome });
        return { outcome, ...changes.riseInProcess(series, total, RECENT_REQUESTS) };
      });
      const limited = outcomes.find(({ outcome }) => outcome === 'rate_limited');
      const all = outcomes.reduce((sum, { by }) => sum + by, 0);
      if (!limited) return [];
      if (limited.by < RATE_LIMITED.fewest || limited.by <= RATE_LIMITED.share * all)
        return covers(limited, RECENT_REQUESTS) ? [] : UNKNOWN;
      return `${count(limited.by)} of the ${count(all)} requests ${within(limited.overSeconds)} got 429 (${percent(limited.by / all)}).`;
    },
  }),
  defineCheck('budget_low', 'DeliveryReadingThrottled', {
    for: 15 * MINUTE,
    when: `too few requests of \`budget.requestsPerDay\` remain for the rest of the UTC day. After the ${percent(KEPT_FOR_ACTIONS)} reserved for auto-cancel are subtracted, fewer than ${percent(REQUESTS_LAST)} of the pro-rata budget remain. The pro-rata budget is \`budget.requestsPerDay\` times the share of the UTC day that is left`,
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
      return `The service’s clock is ${difference} the agent’s: the service’s data is evaluated by the ${isUsed ? 'service’s clock' : 'agent’s clock, because the difference exceeds a day'}.`;
    },
  }),
  defineCheck('rows_unreadable', 'DeliveryDataIncomplete', {
    for: 5 * MINUTE,
    when: 'the last read of dead letters, events or flow-control keys found unreadable rows or values',
    check: eachOf(
      input => [...new Set(polled(input).map(({ collector }) => collector))],
      collector => collector,
      (input, collector) => {
        const { data } = input.dataOf(collector);
        if (data !== 'partial') return data !== 'fresh' && 'unknown';
        const time = newestOf(ofCollector(input, collector).filter(({ state }) => state === 'partial'));
        const at = time === undefined ? '' : ` at ${clockTime(time, input.now)}`;
        return { text: `Some rows of ${collector} could not be read completely${at}: the shown data is incomplete.` };
      },
    ),
  }),
  checksOf('dlq')('filter_failing', 'DeliveryDataIncomplete', {
    for: 15 * MINUTE,
    when: `the service rejects a filter, or returns rows that do not match the filter. A temporary error counts only after it has lasted for ${FILTER_WALKS} times \`dlq.rescanEvery\``,
    check: input => {
      const every = input.rounds.find(({ collector, round }) => collector === 'dlq' && round === 'full')?.every ?? 0;
      return input.dataOf('dlq').failedFilters.flatMap(({ name, reason, message, since, isContradicted }) => {
        if (PASSING.has(reason) && input.now - since < FILTER_WALKS * every) return [];
        const messages = shownFilters(input.shown.dlq?.now?.selections ?? new Map()).get(name)?.messages;
        const known = messages === undefined ? 'unknown' : `from before ${clockTime(since, input.now)}`;
        const shown = isContradicted ? 'its data is not shown' : `its size is ${known}`;
        return { subject: name, since, text: `The filter ${name} fails: ${message}; ${shown}.` };
      });
    },
  }),
];
