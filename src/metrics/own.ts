import type { AccountStatus, RoundStatus } from '../model/status.ts';
import { counter, type Family, gauge, info, type Sample } from './family.ts';

const perRound = (name: string, help: string) => gauge(name, help, ['collector', 'round']);

/** Families about an account that no collector owns: freshness and completeness of its data, and the cost of reading it. */
export const ownFamilies = {
  up: gauge(
    'delivery_up',
    'Whether the last attempt of every round succeeded and no data is stale (1) or not (0). Rounds run in the background, not at scrape time.',
  ),
  success: perRound(
    'delivery_collector_success',
    'Whether the last attempt of the round succeeded (1) or not (0). Absent before the first attempt.',
  ),
  duration: perRound('delivery_collector_duration_seconds', 'Duration of the last attempt of the round.'),
  dataTimestamp: perRound(
    'delivery_collector_data_timestamp_seconds',
    'Start of the last complete round. The exposed data was read at this time or later. Absent before the first complete round.',
  ),
  dataComplete: perRound(
    'delivery_collector_data_complete',
    'Whether the last round read all pages, all rows and the size of every filter (1) or not (0). If a page is missing, the previous data stays exposed.',
  ),
  dataStale: perRound(
    'delivery_collector_data_stale',
    'Whether data is stale (1) or not (0). Stale means that no round has completed for staleness.markAfter intervals.',
  ),
  consecutiveFailures: perRound('delivery_collector_consecutive_failures', 'Consecutive failed attempts of the round.'),
  dlqRetention: gauge(
    'delivery_dlq_retention_seconds',
    'Retention of the dead-letter queue, from the configuration, otherwise from the limits of the plan. Absent if the retention is unknown.',
  ),
  tokenRejected: gauge(
    'delivery_token_rejected',
    'Whether the last response rejected the account’s token with 401 (1) or not (0). A rejected token is retried every minute.',
  ),
  clockSkew: gauge(
    'delivery_service_clock_skew_seconds',
    'Service’s clock minus the agent’s clock, estimated from the Date headers of responses. 0 if the difference is within the error of the estimate. Absent before the first readable Date header.',
  ),
  counting: gauge(
    'delivery_event_log_counting',
    'Whether the agent reads and stores events as they happen (1) or not (0). If 0, the event counters may be too low and catch up later.',
  ),
  rowsRejected: counter(
    'delivery_rows_rejected_total',
    'Rows that were unreadable or had unreadable values. The other metrics lack these rows and values. A list in which no row is readable is counted in delivery_lists_missing_total instead.',
    ['collector'],
  ),
  listsMissing: counter(
    'delivery_lists_missing_total',
    'Discarded responses without a usable list: no list, an error in the list, no readable row, an outdated response from a cache, or endless pagination.',
    ['collector'],
  ),
  requests: counter(
    'delivery_watch_api_requests_total',
    'Requests sent to the service, by endpoint and outcome. Each retry counts as a separate request.',
    ['endpoint', 'outcome'],
  ),
  responseBytes: counter(
    'delivery_watch_api_response_bytes_total',
    'Bytes of response bodies as received, before decompression.',
    ['endpoint'],
  ),
  budgetWait: counter(
    'delivery_watch_api_budget_wait_seconds_total',
    'Total time that requests waited for the account’s request budget.',
  ),
  budgetLimit: gauge('delivery_watch_api_budget_limit', 'Configured request budget of the account per UTC day.'),
  budgetRemaining: gauge(
    'delivery_watch_api_budget_remaining',
    'Remaining requests in the account’s budget for this UTC day. A crash may lose the count of the last 15 seconds.',
  ),
} as const;

/** Returns the info family. Its label names are the union over all accounts. */
export function accountInfoFamily(labels: readonly Readonly<Record<string, string>>[]): Family {
  const help = 'Plan, state and configured labels of the account; always 1.';
  return info('delivery_account_info', help, [
    'plan',
    'state',
    ...new Set(labels.flatMap(each => Object.keys(each)).sort()),
  ]);
}

type Labels<L extends string> = Readonly<Record<L, string>>;

const keyOf = <L extends string>({ labels: names }: Family<L>, labels: Labels<L>) =>
  names.map(name => labels[name]).join('\0');

interface KeptSeries<L extends string> {
  readonly labels: Labels<L>;
  value: number;
}

interface Changes {
  count: number;
}

type KeptCounter<L extends string> = ReturnType<typeof createCounter<L>>;

/**
 * `initial`: series exposed before their first increment. `changes`: counts the changes of all counters that share it. `before`: the
 * replaced counter. Both share the initial series, so that late increments of the replaced counter are not lost.
 */
export function createCounter<L extends string>(
  family: Family<L>,
  initial: readonly Labels<L>[],
  changes: Changes,
  before?: { readonly series: ReadonlyMap<string, KeptSeries<L>> },
) {
  const series = new Map<string, KeptSeries<L>>();
  for (const labels of initial) series.set(keyOf(family, labels), { labels, value: 0 });
  for (const [key, one] of before?.series ?? []) if (series.has(key)) series.set(key, one);
  return {
    series,
    inc(labels: Labels<L>, by = 1): void {
      const key = keyOf(family, labels);
      const one = series.get(key);
      if (one) one.value += by;
      else series.set(key, { labels, value: by });
      changes.count += 1;
    },
    samples: (): readonly KeptSeries<L>[] => [...series.values()],
    total: (): number => series.values().reduce((sum, { value }) => sum + value, 0),
    totalsBy(label: L): ReadonlyMap<string, number> {
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
  readonly changes: Changes;
  revision(): number;
  spent(): { readonly requests: number; readonly bytes: number };
  samples(): readonly [Family, readonly Sample[]][];
}

/** Returns label objects that all accounts share, because each account has 60 such series. */
export const knownRequests = (endpoints: readonly string[], outcomes: readonly string[]) => ({
  requests: endpoints.flatMap(endpoint => outcomes.map(outcome => ({ endpoint, outcome }))),
  bytes: endpoints.map(endpoint => ({ endpoint })),
});

export function createAccountMeter(
  known: ReturnType<typeof knownRequests> & { readonly collectors: readonly string[] },
  before?: AccountMeter,
): AccountMeter {
  const changes = before?.changes ?? { count: 0 };
  const requests = createCounter(ownFamilies.requests, known.requests, changes, before?.requests);
  const bytes = createCounter(ownFamilies.responseBytes, known.bytes, changes, before?.bytes);
  const budgetWait = createCounter(ownFamilies.budgetWait, [{}], changes, before?.budgetWait);
  const lists = known.collectors.map(collector => ({ collector }));
  const rowsRejected = createCounter(ownFamilies.rowsRejected, lists, changes, before?.rowsRejected);
  const listsMissing = createCounter(ownFamilies.listsMissing, lists, changes, before?.listsMissing);
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

/** Whether events are read and stored as they happen; undefined if they are not read at all. */
export function isCounting({ collectors }: Pick<AccountStatus, 'collectors'>): boolean | undefined {
  const events = collectors.find(({ collector }) => collector === 'events');
  const tail = events?.rounds.find(({ round }) => round === 'tail');
  return events && tail?.success === true && tail.dataAt !== undefined && !tail.stale;
}

export function statusSamples(status: AccountStatus): readonly [Family, readonly Sample[]][] {
  const { up, collectors } = status;
  const counting = isCounting(status);
  const rounds = collectors.flatMap(({ collector, rounds }) =>
    rounds.map(status => ({ labels: { collector, round: status.round }, status })),
  );
  const each = (family: Family, pick: (status: RoundStatus) => number | undefined): [Family, Sample[]] => [
    family,
    rounds.flatMap(({ labels, status }) => {
      const value = pick(status);
      return value === undefined ? [] : [{ labels, value }];
    }),
  ];
  return [
    [ownFamilies.up, [{ labels: {}, value: Number(up) }]],
    [ownFamilies.counting, counting === undefined ? [] : [{ labels: {}, value: Number(counting) }]],
    each(ownFamilies.success, status => truth(status.success)),
    each(ownFamilies.duration, status => status.durationSeconds),
    each(ownFamilies.dataTimestamp, status => (status.dataAt === undefined ? undefined : status.dataAt / 1000)),
    each(ownFamilies.dataComplete, status => truth(status.complete)),
    each(ownFamilies.dataStale, status => Number(status.stale)),
    each(ownFamilies.consecutiveFailures, status => status.consecutiveFailures),
  ];
}
