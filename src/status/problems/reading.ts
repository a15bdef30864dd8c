import type { Family } from '../../metrics/family.ts';
import { type KeptCounter, ownFamilies } from '../../metrics/own.ts';
import { BLIND_FOR, LISTS_MISSING, RATE_LIMITED, REQUESTS_KEPT, REQUESTS_LAST } from '../../metrics/thresholds.ts';
import { serviceErrorIn } from '../../upstream/errors.ts';
import { seriesName } from '../recent.ts';
import { isAuxiliary } from '../truth.ts';
import { sum } from '../values.ts';
import {
  type AccountCheck,
  defineCheck,
  everySeconds,
  type Found,
  MINUTE,
  type Moment,
  msOf,
  ofCurrent,
  type ShownAccount,
  seenFor,
} from './check.ts';
import { clockTime, count, lasting, plural, share } from './words.ts';

type Round = ShownAccount['rounds'][number];

const QUARTER = 15 * MINUTE;

const DATA: Readonly<Record<string, string>> = {
  dlq: 'Dead letters',
  events: 'Events',
  flow_control: 'Flow-control keys',
};

/** Rounds that query the service: the account's record is a local file. */
const asking = ({ rounds }: ShownAccount) => rounds.filter(({ collector }) => collector !== 'account');

/** The most frequent round of each collector that gauges depend on: it detects an outage first. */
function pulses(view: ShownAccount): Round[] {
  const deciding = asking(view).filter(round => !isAuxiliary(round) && round.state !== 'waiting');
  return [...Map.groupBy(deciding, ({ collector }) => collector).values()].map(rounds =>
    rounds.reduce((a, b) => (b.everySeconds < a.everySeconds ? b : a)),
  );
}

const isStale = ({ state }: Round) => state === 'stale' || state === 'withdrawn';

/** Start of the newest complete one of these rounds; undefined if none was complete since the agent started. */
function newestOf(rounds: readonly Round[]): number | undefined {
  const times = rounds.flatMap(({ dataAt }) => msOf(dataAt) ?? []);
  return times.length === 0 ? undefined : Math.max(...times);
}

const lastRead = (view: ShownAccount) => newestOf(asking(view));

const ofCollector = (view: ShownAccount, collector: string) =>
  asking(view).filter(round => round.collector === collector);

/** The time until which all shown data is true. A pulse without a success uses other rounds of its collector. */
function trueAt(view: ShownAccount): number | undefined {
  const newest = pulses(view).flatMap(round => newestOf([round]) ?? newestOf(ofCollector(view, round.collector)) ?? []);
  return newest.length === 0 ? undefined : Math.min(...newest);
}

function ofShown({ view, now }: Moment): string {
  const time = trueAt(view);
  if (time === undefined) return 'nothing was read since the agent started';
  const isGone = pulses(view).every(({ state }) => state === 'withdrawn');
  return isGone
    ? `nothing is shown any more, as the last data is of ${clockTime(time, now)}`
    : `what is shown was true at ${clockTime(time, now)}`;
}

const serviceError = ({ failure }: Round) => serviceErrorIn(failure?.message ?? '');

const OUTAGES: ReadonlySet<string> = new Set(['server', 'timeout', 'network']);

function outageText(round: Round, lasts: string): string {
  const { reason, message = '' } = round.failure ?? {};
  if (reason === 'timeout') return `The service has not answered in time${lasts}`;
  if (reason === 'network') return `The service can’t be reached${lasts} (${message.split(': ').at(-1)})`;
  const status = /status (5\d\d)/.exec(message)?.[1] ?? 'with errors';
  const why = serviceError(round);
  return `The service has answered ${status}${lasts}${why === undefined ? '' : ` (${why})`}`;
}

/** The round with the failure, if all collectors fail and one is stale. */
function outage(view: ShownAccount) {
  const all = pulses(view);
  if (all.length === 0 || !all.every(({ consecutiveFailures }) => consecutiveFailures > 0)) return undefined;
  if (!all.some(round => isStale(round) || (round.dataAt === null && round.consecutiveFailures > 1))) return undefined;
  return all.find(({ failure }) => failure && OUTAGES.has(failure.reason));
}

/** Start of the failure messages of an account that could not be opened. */
export const NOT_OPENED = 'the account could not be opened';

/** Why the account could not be opened; undefined for an open account. */
const notOpened = (view: ShownAccount) =>
  asking(view).find(({ failure }) => failure?.message.startsWith(NOT_OPENED))?.failure?.message;

/** Stale rounds, unless the whole account cannot be read. */
const staleRounds = (view: ShownAccount) =>
  view.calls.tokenRejected === true || outage(view) || notOpened(view) ? [] : asking(view).filter(isStale);

function staleData(moment: Moment, kind: 'data_stale' | 'data_withdrawn', state: Round['state']): Found[] {
  const { view, now } = moment;
  const stale = staleRounds(view).filter(round => !isAuxiliary(round) && round.state === state);
  return [...Map.groupBy(stale, ({ collector }) => collector)].flatMap(([collector, rounds]) => {
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
}

/** Increases of a counter in 15 minutes, by the values of a label. */
const risen = <L extends string>({ changes }: Moment, family: Family<L>, counter: KeptCounter<L>, label: L) =>
  [...counter.totalsBy(label)].flatMap(([value, total]) => {
    const rise = changes.rise(seriesName(family.name, { [label]: value }), total, QUARTER);
    return rise ? { value, ...rise } : [];
  });

/** Failures that are often gone at the next read of a filter. */
const PASSING: ReadonlySet<string> = new Set(['server', 'timeout', 'network', 'rate_limited', 'unauthorized']);

export const READING: readonly AccountCheck[] = [
  defineCheck('token_rejected', 'critical', 'DeliveryTokenRejected', {
    when: 'the service answers 401 to the token of the account',
    check(moment) {
      const { view } = moment;
      if (view.calls.tokenRejected !== true) return [];
      const rejected = asking(view).filter(({ failure }) => failure?.reason === 'unauthorized');
      const [why] = rejected.flatMap(round => serviceError(round) ?? []);
      const status = why === undefined ? '401' : `401: ${why}`;
      return { since: lastRead(view), text: `The service refuses the token (${status}); ${ofShown(moment)}.` };
    },
  }),
  defineCheck('service_unavailable', 'critical', 'DeliveryBlind', {
    when: 'no collector can read, as the service answers 5xx, does not answer, or can’t be reached, and the data of one is stale (`staleness.markAfter`); a warning for the first two minutes',
    check(moment) {
      const { view, now } = moment;
      const failed = view.calls.tokenRejected === true ? undefined : outage(view);
      if (!failed) return [];
      const since = lastRead(view);
      const lasts = since === undefined ? seenFor(moment, 'service_unavailable', null) : now - since;
      const text = `${outageText(failed, lasts < 1000 ? '' : ` for ${lasting(lasts / 1000)}`)}; ${ofShown(moment)}.`;
      return { since, severity: lasts < BLIND_FOR * 1000 ? 'warning' : 'critical', text };
    },
  }),
  defineCheck('data_withdrawn', 'critical', 'DeliveryBlind', {
    when: 'the data of a collector is so old that it is no longer shown (`staleness.withdrawAfter`), while others are read',
    check: moment => staleData(moment, 'data_withdrawn', 'withdrawn'),
  }),
  defineCheck('data_stale', 'critical', 'DeliveryBlind', {
    when: 'the data of a collector is stale (`staleness.markAfter`), while others are read; up to two minutes a warning. Or the account could not be opened',
    check(moment) {
      const why = notOpened(moment.view);
      return why === undefined
        ? staleData(moment, 'data_stale', 'stale')
        : `Nothing is read: ${why}. It is retried by itself.`;
    },
  }),
  defineCheck('data_stale', 'warning', 'DeliveryCollectorStale', {
    when: 'a round that no gauge depends on is stale',
    check: ({ view, now }) =>
      staleRounds(view)
        .filter(isAuxiliary)
        .map(({ collector, round, dataAt, failure }) => {
          const since = msOf(dataAt);
          const last = since === undefined ? '' : ` since ${clockTime(since, now)}`;
          const why = failure ? `: ${failure.message}` : '';
          const text = `The round ${round} of ${collector} was not complete${last}; all gauges are current${why}.`;
          return { subject: `${collector} ${round}`, since, text };
        }),
  }),
  defineCheck('rate_limited', 'warning', 'DeliveryRateLimited', {
    when: 'more than 10 % of the requests of the last 15 minutes, and at least 5, were answered with 429',
    check(moment) {
      const outcomes = risen(moment, ownFamilies.requests, moment.meter.requests, 'outcome');
      const limited = outcomes.find(({ value }) => value === 'rate_limited');
      const all = sum(outcomes.map(({ by }) => by));
      if (!limited || limited.by < RATE_LIMITED.fewest || limited.by <= RATE_LIMITED.share * all) return [];
      return `${count(limited.by)} of the ${count(all)} requests in ${lasting(limited.overSeconds)} got 429 (${share(limited.by / all)}).`;
    },
  }),
  defineCheck('budget_low', 'warning', 'DeliveryRequestBudgetLow', {
    when: 'what is left of `budget.requestsPerDay`, without the tenth that is kept for auto-cancel, is less than a quarter of what the rest of the UTC day would get',
    check({ view: { calls }, now }) {
      const { budgetRemaining: left, budgetPerDay: all } = calls;
      const dayLeft = 1 - (now % 86_400_000) / 86_400_000;
      if (left === null || all === 0 || left / all - REQUESTS_KEPT >= REQUESTS_LAST * dayLeft) return [];
      return `${count(left)} of the ${count(all)} requests of today are left until 00:00 UTC: rounds wait for them.`;
    },
  }),
  defineCheck('rows_unreadable', 'warning', 'DeliveryRowsRejected', {
    when: 'rows of a list could not be read in the last 15 minutes',
    check: moment =>
      risen(moment, ownFamilies.rowsRejected, moment.meter.rowsRejected, 'collector').flatMap(
        ({ value: subject, by, overSeconds }) => {
          const text = `${plural(by, 'row')} of ${subject} could not be read in ${lasting(overSeconds)}: what is shown is incomplete, and nothing counts as gone.`;
          return by === 0 ? [] : { subject, text };
        },
      ),
  }),
  defineCheck('filter_failing', 'warning', 'DeliveryCollectorStale', {
    when: 'a filter of `dlq.filters` is rejected, or the service lists entries for it that do not match it, while the queue is read; if the service fails or limits the rate, after one and a half times `dlq.rescanEvery`',
    check: ofCurrent('deadLetters', ({ view, now }, { filters }) =>
      filters.flatMap(({ name, messages, failure }) => {
        if (!failure) return [];
        const since = msOf(failure.since);
        const isYoung = since !== undefined && now - since < 1500 * everySeconds(view, 'dlq', 'full');
        if (isYoung && PASSING.has(failure.reason)) return [];
        const known = messages === null ? 'unknown' : `of ${since === undefined ? 'before' : clockTime(since, now)}`;
        const shown = failure.contradicted ? 'nothing of it is shown' : `its size is ${known}`;
        return { subject: name, since, text: `The filter ${name} fails: ${failure.message}; ${shown}.` };
      }),
    ),
  }),
  defineCheck('lists_missing', 'warning', 'DeliveryListsMissing', {
    when: 'three answers or more of the last 15 minutes were no readable list',
    check: moment =>
      risen(moment, ownFamilies.listsMissing, moment.meter.listsMissing, 'collector').flatMap(
        ({ value: subject, by, overSeconds }) => {
          const text = `${plural(by, 'answer')} to ${subject} in ${lasting(overSeconds)} had no readable list; what was read before is shown.`;
          return by < LISTS_MISSING ? [] : { subject, text };
        },
      ),
  }),
];
