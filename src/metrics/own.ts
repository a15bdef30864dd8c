import { type Counter, zeroBefore } from '../kit/counter.ts';
import type { AccountStatus, RoundStatus } from '../model/status.ts';
import { counter, type Family, gauge, info, type Sample } from './family.ts';

/** Families about an account that no collector owns: freshness and completeness of its data, and the cost of reading it. */
export const ownFamilies = {
  up: gauge(
    'delivery_up',
    'Whether the last attempt of every round of the account’s enabled collectors succeeded and no data is stale (1), else 0; 0 before the first. Rounds without anything to read yet do not count: sweep before any event is old enough, new before the first complete walk. Rounds run in the background, not at scrape time.',
  ),
  success: gauge(
    'delivery_collector_success',
    'Whether the round’s last attempt that sent a request succeeded (1), else 0. Absent before the first such attempt.',
    ['collector', 'round'],
  ),
  duration: gauge('delivery_collector_duration_seconds', 'Duration of the last attempt of the round.', [
    'collector',
    'round',
  ]),
  dataTimestamp: gauge(
    'delivery_collector_data_timestamp_seconds',
    'Start of the last complete round; the exposed data was read then or later. Absent before the first.',
    ['collector', 'round'],
  ),
  dataComplete: gauge(
    'delivery_collector_data_complete',
    'Whether the round’s last attempt read every page, row and filter (1), else 0. A round that misses a page never replaces data; a round with unreadable rows or a failed filter does.',
    ['collector', 'round'],
  ),
  dataStale: gauge(
    'delivery_collector_data_stale',
    'Whether the last complete round ended more than staleness.markAfter intervals ago (or as many durations of that round, if longer) (1), else 0. The age survives restarts; downtime of the agent counts once an attempt has failed. The age does not grow while there is nothing to read yet. Data is withdrawn after staleness.withdrawAfter intervals.',
    ['collector', 'round'],
  ),
  consecutiveFailures: gauge('delivery_collector_consecutive_failures', 'Consecutive failed attempts of the round.', [
    'collector',
    'round',
  ]),
  dlqRetention: gauge(
    'delivery_dlq_retention_seconds',
    'Retention of the account’s dead-letter queue: as configured, else from the record of the last token reset. Absent without either.',
  ),
  tokenRejected: gauge(
    'delivery_token_rejected',
    'Whether the service rejects the account’s token with 401 (1), else 0, by the last response, also across restarts. Absent before the first. A rejected token is retried every five minutes, a changed one immediately.',
  ),
  counting: gauge(
    'delivery_event_log_counting',
    'Whether the event log is read and stored as it happens (1), else 0: before the first complete read of this process, while the data is stale, and after a failed or unstored read. While it is 0, exposed counters may catch up with earlier events.',
  ),
  rowsRejected: counter(
    'delivery_rows_rejected_total',
    'Skipped unreadable rows of list responses with other readable rows. The round counts as incomplete.',
    ['collector'],
  ),
  listsMissing: counter(
    'delivery_lists_missing_total',
    'Discarded responses without a usable list: not a list, a list with an error, no readable row, or endless pages.',
    ['collector'],
  ),
  requests: counter(
    'delivery_watch_api_requests_total',
    'Requests sent to the service by outcome, including retries.',
    ['endpoint', 'outcome'],
  ),
  responseBytes: counter(
    'delivery_watch_api_response_bytes_total',
    'Bytes of response bodies as received, possibly compressed.',
    ['endpoint'],
  ),
  budgetWait: counter(
    'delivery_watch_api_budget_wait_seconds_total',
    "Time that requests waited for the account's budget.",
  ),
  budgetLimit: gauge('delivery_watch_api_budget_limit', 'Requests per UTC day in the account’s configured budget.'),
  budgetRemaining: gauge(
    'delivery_watch_api_budget_remaining',
    "Remaining requests in the account's configured budget for this UTC day. Survives restarts, except the last 15 seconds.",
  ),
} as const;

/** Returns the family with plan, state and labels of each account. Its label names are the union over all accounts. */
export function accountInfoFamily(labels: readonly Readonly<Record<string, string>>[]): Family {
  const help =
    'Plan and state of the account, from the record of the last token reset, and its configured labels. Always 1.';
  return info('delivery_account_info', help, [
    'plan',
    'state',
    ...new Set(labels.flatMap(each => Object.keys(each)).sort()),
  ]);
}

/** A series exposed before its first increment. All accounts share one table of them, because each has 60 such series. */
export interface KnownSeries<L extends string = string> {
  readonly key: string;
  readonly labels: Readonly<Record<L, string>>;
}

const keyOf = <L extends string>({ labels: names }: Family<L>, labels: Readonly<Record<L, string>>) =>
  names.map(name => labels[name]).join('\0');

export const knownSeries = <L extends string>(
  family: Family<L>,
  all: readonly Readonly<Record<L, string>>[],
): readonly KnownSeries<L>[] => all.map(labels => ({ key: keyOf(family, labels), labels }));

export const knownValues = <L extends string>(
  family: Family<L>,
  values: readonly string[],
): readonly KnownSeries<L>[] =>
  knownSeries(
    family,
    values.map(value => ({ [family.labels[0] as L]: value }) as Record<L, string>),
  );

interface KeptSeries<L extends string> {
  readonly labels: Readonly<Record<L, string>>;
  value: number;
  readonly since: number;
}

/** A counter with its own series, written by our exposition. */
export interface KeptCounter<L extends string> extends Counter<L> {
  samples(): readonly (Sample<L> & KeptSeries<L>)[];
  total(): number;
  totalsBy(label: L): ReadonlyMap<string, number>;
  readonly series: Map<string, KeptSeries<L>>;
}

/** `before`: predefined series are shared with it, so that its increments are not lost until it is closed. */
export function createCounter<L extends string>(
  family: Family<L>,
  known: readonly KnownSeries<L>[],
  onChange: () => void,
  now: () => number,
  before?: KeptCounter<L>,
): KeptCounter<L> {
  const series: KeptCounter<L>['series'] = new Map();
  const start = now();
  for (const { key, labels } of known) series.set(key, { labels, value: 0, since: start });
  for (const [key, one] of before?.series ?? []) if (series.has(key)) series.set(key, one);
  return {
    series,
    inc(labels, by = 1) {
      const key = keyOf(family, labels);
      const one = series.get(key);
      if (one) one.value += by;
      else series.set(key, { labels, value: by, since: Math.max(start, zeroBefore(now())) });
      onChange();
    },
    samples: () => [...series.values()],
    total: () => series.values().reduce((sum, { value }) => sum + value, 0),
    totalsBy(label) {
      const totals = new Map<string, number>();
      for (const { labels, value } of series.values())
        totals.set(labels[label], (totals.get(labels[label]) ?? 0) + value);
      return totals;
    },
  };
}

/** Counters of one account. Predefined label values start at 0, so that the first increment is visible. */
export interface AccountMeter {
  readonly requests: KeptCounter<'endpoint' | 'outcome'>;
  readonly bytes: KeptCounter<'endpoint'>;
  readonly budgetWait: KeptCounter<never>;
  readonly rowsRejected: KeptCounter<'collector'>;
  readonly listsMissing: KeptCounter<'collector'>;
  readonly changes: { count: number };
  revision(): number;
  spent(): { readonly requests: number; readonly bytes: number };
  samples(): readonly [Family, readonly Sample[]][];
}

export interface KnownRequests {
  readonly requests: readonly KnownSeries<'endpoint' | 'outcome'>[];
  readonly bytes: readonly KnownSeries<'endpoint'>[];
}

export function knownRequests(endpoints: readonly string[], outcomes: readonly string[]): KnownRequests {
  const requests = endpoints.flatMap(endpoint => outcomes.map(outcome => ({ endpoint, outcome })));
  return {
    requests: knownSeries(ownFamilies.requests, requests),
    bytes: knownValues(ownFamilies.responseBytes, endpoints),
  };
}

export function createAccountMeter(
  known: KnownRequests & { readonly collectors: readonly string[] },
  now: () => number,
  before?: AccountMeter,
): AccountMeter {
  const changes = before?.changes ?? { count: 0 };
  const changed = () => {
    changes.count += 1;
  };
  const create = <L extends string>(
    family: Family<L>,
    series: readonly KnownSeries<L>[],
    last: KeptCounter<L> | undefined,
  ) => createCounter(family, series, changed, now, last);
  const requests = create(ownFamilies.requests, known.requests, before?.requests);
  const bytes = create(ownFamilies.responseBytes, known.bytes, before?.bytes);
  const budgetWait = create(ownFamilies.budgetWait, knownSeries(ownFamilies.budgetWait, [{}]), before?.budgetWait);
  // Both have the same labels.
  const lists = knownValues(ownFamilies.rowsRejected, known.collectors);
  const rowsRejected = create(ownFamilies.rowsRejected, lists, before?.rowsRejected);
  const listsMissing = create(ownFamilies.listsMissing, lists, before?.listsMissing);
  return {
    requests,
    bytes,
    budgetWait,
    rowsRejected,
    listsMissing,
    changes,
    revision: () => changes.count,
    spent: () => ({ requests: requests.total(), bytes: bytes.total() }),
    samples: () => [
      [ownFamilies.requests, requests.samples()],
      [ownFamilies.responseBytes, bytes.samples()],
      [ownFamilies.budgetWait, budgetWait.samples()],
      [ownFamilies.rowsRejected, rowsRejected.samples()],
      [ownFamilies.listsMissing, listsMissing.samples()],
    ],
  };
}

const truth = (value: boolean | undefined) => (value === undefined ? undefined : Number(value));

export function statusSamples({ up, collectors }: AccountStatus): readonly [Family, readonly Sample[]][] {
  const rounds = collectors.flatMap(({ collector, rounds }) =>
    rounds.map(status => ({ labels: { collector, round: status.round }, status })),
  );
  const events = collectors.find(({ collector }) => collector === 'events');
  const tail = events?.rounds.find(({ round }) => round === 'tail');
  const isCounting = tail?.success === true && tail.dataAt !== undefined && !tail.stale;
  const each = (family: Family, pick: (status: RoundStatus) => number | undefined): [Family, Sample[]] => [
    family,
    rounds.flatMap(({ labels, status }) => {
      const value = pick(status);
      return value === undefined ? [] : [{ labels, value }];
    }),
  ];
  return [
    [ownFamilies.up, [{ labels: {}, value: Number(up) }]],
    [ownFamilies.counting, events ? [{ labels: {}, value: Number(isCounting) }] : []],
    each(ownFamilies.success, status => truth(status.success)),
    each(ownFamilies.duration, status => status.durationSeconds),
    each(ownFamilies.dataTimestamp, status => (status.dataAt === undefined ? undefined : status.dataAt / 1000)),
    each(ownFamilies.dataComplete, status => truth(status.complete)),
    each(ownFamilies.dataStale, status => Number(status.stale)),
    each(ownFamilies.consecutiveFailures, status => status.consecutiveFailures),
  ];
}
