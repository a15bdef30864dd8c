import { isDeciding } from '../../collectors/index.ts';
import { seriesName } from '../../history/series-name.ts';
import type { Family } from '../../metrics/family.ts';
import { type KeptCounter, ownFamilies } from '../../metrics/own.ts';
import { BLIND_FOR, LISTS_MISSING, RATE_LIMITED, REQUESTS_KEPT, REQUESTS_LAST } from '../../metrics/thresholds.ts';
import { serviceErrorIn } from '../../upstream/errors.ts';
import type { CheckedAccount, CheckedRound } from './account.ts';
import {
  type AccountCheck,
  type CheckInput,
  checksOf,
  covers,
  defineCheck,
  everySeconds,
  type Finding,
  MINUTE,
  msOf,
  type Result,
  seenFor,
  UNKNOWN,
  type Unknown,
} from './check.ts';
import { clockTime, count, lasting, plural, share } from './words.ts';

const QUARTER = 15 * MINUTE;

const DATA: Readonly<Record<string, string>> = {
  dlq: 'Dead letters',
  events: 'Events',
  flow_control: 'Flow-control keys',
};

const isAuxiliary = ({ collector, round }: CheckedRound) => !isDeciding(collector, round);

/** Rounds that query the service: the account's record is a local file. */
const asking = ({ rounds }: CheckedAccount) => rounds.filter(({ collector }) => collector !== 'account');

/** The most frequent round of each collector that gauges depend on: it detects an outage first. */
function pulses(view: CheckedAccount): CheckedRound[] {
  const deciding = asking(view).filter(round => !isAuxiliary(round) && round.state !== 'waiting');
  return [...Map.groupBy(deciding, ({ collector }) => collector).values()].map(rounds =>
    rounds.reduce((a, b) => (b.everySeconds < a.everySeconds ? b : a)),
  );
}

const isStale = ({ state }: CheckedRound) => state === 'stale' || state === 'withdrawn';

/** Start of the newest complete one of these rounds; undefined if none was complete since the agent started. */
function newestOf(rounds: readonly CheckedRound[]): number | undefined {
  const times = rounds.flatMap(({ dataAt }) => msOf(dataAt) ?? []);
  return times.length === 0 ? undefined : Math.max(...times);
}

const lastRead = (view: CheckedAccount) => newestOf(asking(view));

const ofCollector = (view: CheckedAccount, collector: string) =>
  asking(view).filter(round => round.collector === collector);

/** Returns the time of the oldest shown data. A pulse without a success uses other rounds of its collector. */
function trueAt(view: CheckedAccount): number | undefined {
  const newest = pulses(view).flatMap(round => newestOf([round]) ?? newestOf(ofCollector(view, round.collector)) ?? []);
  return newest.length === 0 ? undefined : Math.min(...newest);
}

function ofShown({ view, now }: CheckInput): string {
  const time = trueAt(view);
  if (time === undefined) return 'nothing was read since the agent started';
  const isGone = pulses(view).every(({ state }) => state === 'withdrawn');
  return isGone
    ? `nothing is shown any more, as the last data is of ${clockTime(time, now)}`
    : `what is shown was true at ${clockTime(time, now)}`;
}

const serviceError = ({ failure }: CheckedRound) => serviceErrorIn(failure?.message ?? '');

const OUTAGES: ReadonlySet<string> = new Set(['server', 'timeout', 'network']);

function outageText(round: CheckedRound, lasts: string): string {
  const { reason, message = '' } = round.failure ?? {};
  if (reason === 'timeout') return `The service has not answered in time${lasts}`;
  if (reason === 'network') return `The service can’t be reached${lasts} (${message.split(': ').at(-1)})`;
  const status = /status (5\d\d)/.exec(message)?.[1] ?? 'with errors';
  const why = serviceError(round);
  return `The service has answered ${status}${lasts}${why === undefined ? '' : ` (${why})`}`;
}

/** The round with the failure, if all collectors fail and one is stale. */
function outage(view: CheckedAccount) {
  const all = pulses(view);
  if (all.length === 0 || !all.every(({ consecutiveFailures }) => consecutiveFailures > 0)) return undefined;
  if (!all.some(round => isStale(round) || (round.dataAt === null && round.consecutiveFailures > 1))) return undefined;
  return all.find(({ failure }) => failure && OUTAGES.has(failure.reason));
}

/** Start of the failure messages of an account that could not be opened. */
export const NOT_OPENED = 'the account could not be opened';

/** Why the account could not be opened; undefined for an open account. */
const notOpened = (view: CheckedAccount) =>
  asking(view).find(({ failure }) => failure?.message.startsWith(NOT_OPENED))?.failure?.message;

/** Whether the whole account cannot be read: findings about parts of it would only repeat that. */
const isUnreadable = (view: CheckedAccount) =>
  view.calls.tokenRejected === true || outage(view) !== undefined || notOpened(view) !== undefined;

/** A round without a complete read since the agent started, although there is something to read. */
const isUnread = ({ dataAt, state }: CheckedRound) => dataAt === null && state !== 'not_due' && state !== 'waiting';

/** Returns collectors with an unread round that gauges depend on. */
const unread = (view: CheckedAccount): Unknown[] =>
  [
    ...new Set(
      asking(view)
        .filter(round => !isAuxiliary(round) && isUnread(round))
        .map(({ collector }) => collector),
    ),
  ].map(subject => ({
    subject,
    isUnknown: true,
  }));

function staleData(input: CheckInput, kind: 'data_stale' | 'data_withdrawn', state: CheckedRound['state']): Result {
  const { view, now } = input;
  if (isUnreadable(view)) return UNKNOWN;
  const stale = asking(view).filter(round => !isAuxiliary(round) && round.state === state);
  const found = [...Map.groupBy(stale, ({ collector }) => collector)].map(([collector, rounds]): Finding => {
    // Other rounds may have read the shown data.
    const since = newestOf(rounds) ?? newestOf(ofCollector(view, collector));
    const read =
      since === undefined ? 'were not read since the agent started' : `were last read at ${clockTime(since, now)}`;
    const why = rounds.find(({ failure }) => failure)?.failure?.message;
    const gone = kind === 'data_withdrawn' && since !== undefined ? ' and are no longer shown' : '';
    const age = since === undefined ? Number.POSITIVE_INFINITY : now - since;
    const text = `${DATA[collector] ?? collector} ${read}${gone}${why === undefined ? '' : `: ${why}`}.`;
    return { subject: collector, since, severity: age < BLIND_FOR * 1000 ? 'warning' : 'critical', text };
  });
  return [...found, ...unread(view)];
}

/** Increases of a counter in 15 minutes, by the values of a label. `isCovered`: the history covers that time. */
function risen<L extends string>({ changes }: CheckInput, family: Family<L>, counter: KeptCounter<L>, label: L) {
  return [...counter.totalsBy(label)].map(([value, total]) => {
    const rise = changes.rise(seriesName(family.name, { [label]: value }), total, QUARTER);
    return { value, by: rise?.by ?? 0, overSeconds: rise?.overSeconds ?? 0, isCovered: covers(rise, QUARTER) };
  });
}

/** Failures of a filter that are often temporary. */
const PASSING: ReadonlySet<string> = new Set(['server', 'timeout', 'network', 'rate_limited', 'unauthorized']);

export const READING: readonly AccountCheck[] = [
  defineCheck('token_rejected', 'DeliveryTokenRejected', {
    when: 'the service rejects the token of the account with status 401',
    check(input) {
      const { view } = input;
      const { tokenRejected } = view.calls;
      if (tokenRejected !== true) return tokenRejected === null ? UNKNOWN : [];
      const rejected = asking(view).filter(({ failure }) => failure?.reason === 'unauthorized');
      const [why] = rejected.flatMap(round => serviceError(round) ?? []);
      const status = why === undefined ? '401' : `401: ${why}`;
      return { since: lastRead(view), text: `The service refuses the token (${status}); ${ofShown(input)}.` };
    },
  }),
  defineCheck('service_unavailable', 'DeliveryBlind', {
    when: 'no collector can read because of 5xx responses, timeouts or network errors, and the data of at least one is stale (`staleness.markAfter`); a warning for the first two minutes',
    check(input) {
      const { view, now } = input;
      if (view.calls.tokenRejected === true) return UNKNOWN;
      const failed = outage(view);
      if (!failed) {
        const isAnyRead = pulses(view).some(round => round.dataAt !== null && round.consecutiveFailures === 0);
        return isAnyRead || !pulses(view).some(isUnread) ? [] : UNKNOWN;
      }
      const since = lastRead(view);
      const lasts = since === undefined ? seenFor(input, 'service_unavailable', null) : now - since;
      const text = `${outageText(failed, lasts < 1000 ? '' : ` for ${lasting(lasts / 1000)}`)}; ${ofShown(input)}.`;
      return { since, severity: lasts < BLIND_FOR * 1000 ? 'warning' : 'critical', text };
    },
  }),
  defineCheck('data_withdrawn', 'DeliveryBlind', {
    when: 'the data of a collector is withdrawn (`staleness.withdrawAfter`) while other collectors can read',
    check: input => staleData(input, 'data_withdrawn', 'withdrawn'),
  }),
  defineCheck('data_stale', 'DeliveryBlind', {
    when: 'the data of a collector is stale (`staleness.markAfter`) while other collectors can read; a warning for the first two minutes. Or the account could not be opened',
    check(input) {
      const why = notOpened(input.view);
      return why === undefined
        ? staleData(input, 'data_stale', 'stale')
        : `Nothing is read: ${why}. It is retried by itself.`;
    },
  }),
  defineCheck('data_stale', 'DeliveryCollectorStale', {
    when: 'a round that no gauge depends on is stale',
    check({ view, now }) {
      if (isUnreadable(view)) return UNKNOWN;
      return asking(view)
        .filter(isAuxiliary)
        .flatMap((each): Finding | Unknown | [] => {
          const { collector, round, dataAt, failure } = each;
          const of = { subject: `${collector} ${round}`, labels: { collector, round } };
          if (!isStale(each)) return isUnread(each) ? { ...of, isUnknown: true } : [];
          const since = msOf(dataAt);
          const last = since === undefined ? '' : ` since ${clockTime(since, now)}`;
          const why = failure ? `: ${failure.message}` : '';
          const text = `The round ${round} of ${collector} was not complete${last}; all gauges are current${why}.`;
          return { ...of, since, text };
        });
    },
  }),
  defineCheck('rate_limited', 'DeliveryRateLimited', {
    when: 'more than 10 % of the requests in the last 15 minutes, and at least 5, got status 429',
    check(input) {
      const outcomes = risen(input, ownFamilies.requests, input.meter.requests, 'outcome');
      const limited = outcomes.find(({ value }) => value === 'rate_limited');
      const all = outcomes.reduce((sum, { by }) => sum + by, 0);
      if (!limited) return [];
      if (limited.by < RATE_LIMITED.fewest || limited.by <= RATE_LIMITED.share * all)
        return limited.isCovered ? [] : UNKNOWN;
      return `${count(limited.by)} of the ${count(all)} requests in ${lasting(limited.overSeconds)} got 429 (${share(limited.by / all)}).`;
    },
  }),
  defineCheck('budget_low', 'DeliveryRequestBudgetLow', {
    when: 'the rest of `budget.requestsPerDay`, without the tenth reserved for auto-cancel, is less than a quarter of the proportional budget for the rest of the UTC day',
    check({ view: { calls }, now }) {
      const { budgetRemaining: left, budgetPerDay: all } = calls;
      if (left === null) return UNKNOWN;
      const dayLeft = 1 - (now % 86_400_000) / 86_400_000;
      if (all === 0 || left / all - REQUESTS_KEPT >= REQUESTS_LAST * dayLeft) return [];
      return `${count(left)} of the ${count(all)} requests of today are left until 00:00 UTC: rounds wait for them.`;
    },
  }),
  defineCheck('rows_unreadable', 'DeliveryRowsRejected', {
    when: 'rows of a list could not be read in the last 15 minutes',
    check: input =>
      risen(input, ownFamilies.rowsRejected, input.meter.rowsRejected, 'collector').flatMap(
        ({ value: subject, by, overSeconds, isCovered }): Finding | Unknown | [] => {
          const text = `${plural(by, 'row')} of ${subject} could not be read in ${lasting(overSeconds)}: what is shown is incomplete, and nothing counts as gone.`;
          return by > 0 ? { subject, text } : isCovered ? [] : { subject, isUnknown: true };
        },
      ),
  }),
  checksOf('dlq')('filter_failing', 'DeliveryCollectorStale', {
    when: 'the service rejects a filter of `dlq.filters`, or lists entries that do not match it, while the queue can be read. Outages and rate limits count after 1.5 times `dlq.rescanEvery`',
    check: ({ view, now }, { filters }) =>
      filters.flatMap(({ name, messages, failure }) => {
        if (!failure) return [];
        const since = msOf(failure.since);
        const isYoung = since !== undefined && now - since < 1500 * everySeconds(view, 'dlq', 'full');
        if (isYoung && PASSING.has(failure.reason)) return [];
        const known = messages === null ? 'unknown' : `of ${since === undefined ? 'before' : clockTime(since, now)}`;
        const shown = failure.contradicted ? 'nothing of it is shown' : `its size is ${known}`;
        return { subject: name, since, text: `The filter ${name} fails: ${failure.message}; ${shown}.` };
      }),
  }),
  defineCheck('lists_missing', 'DeliveryListsMissing', {
    when: 'at least three responses in the last 15 minutes contained no readable list',
    check: input =>
      risen(input, ownFamilies.listsMissing, input.meter.listsMissing, 'collector').flatMap(
        ({ value: subject, by, overSeconds, isCovered }): Finding | Unknown | [] => {
          const text = `${plural(by, 'answer')} to ${subject} in ${lasting(overSeconds)} had no readable list; what was read before is shown.`;
          return by >= LISTS_MISSING ? { subject, text } : isCovered ? [] : { subject, isUnknown: true };
        },
      ),
  }),
];
