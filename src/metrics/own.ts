import type { Counter } from '../kit/counter.ts';
import type { AccountStatus, RoundStatus } from '../model/status.ts';
import { counter, type Family, gauge, info, type Sample } from './family.ts';

/** Every family about an account that no collector owns: how true the data is, and what reading it costs. */
export const ownFamilies = {
  up: gauge(
    'delivery_up',
    '1 when the last round of every enabled collector of the account succeeded, else 0; 0 before the first. Rounds that have had nothing to ask yet do not count: the sweep of the event log before anything is old enough, the look for new dead letters before the first complete walk. Rounds run in the background, not at scrape time.',
  ),
  success: gauge(
    'delivery_collector_success',
    '1 when the last attempt of the round that asked something succeeded, else 0. Absent before the first: a round that asks nothing is no success.',
    ['collector', 'round'],
  ),
  duration: gauge('delivery_collector_duration_seconds', 'How long the last attempt of the round took.', [
    'collector',
    'round',
  ]),
  dataTimestamp: gauge(
    'delivery_collector_data_timestamp_seconds',
    'When the last complete round began: the data shown was true then or later. Absent before the first.',
    ['collector', 'round'],
  ),
  dataComplete: gauge(
    'delivery_collector_data_complete',
    '1 when the last attempt of the round read every page and every row, else 0. A round that misses a page never replaces data; one with rows that could not be read does.',
    ['collector', 'round'],
  ),
  dataStale: gauge(
    'delivery_collector_data_stale',
    '1 when the last complete round ended more than staleness.markAfter intervals ago (or as many durations of that round, if longer), else 0. The age goes on through restarts; time in which no agent ran counts once an attempt has failed. While there is nothing to read yet the age stands still. After staleness.withdrawAfter intervals the data is withdrawn.',
    ['collector', 'round'],
  ),
  consecutiveFailures: gauge(
    'delivery_collector_consecutive_failures',
    'Attempts of the round that failed since the last one that succeeded.',
    ['collector', 'round'],
  ),
  dlqRetention: gauge(
    'delivery_dlq_retention_seconds',
    'How long the dead-letter queue of the account keeps messages, as configured, or else as the record of the last token reset says. Absent when neither does.',
  ),
  tokenRejected: gauge(
    'delivery_token_rejected',
    '1 while the service refuses the token of the account (401), else 0. It is the last answer that counts, also one from before a restart; absent before the first. A refused token is tried again every five minutes, a changed one at once.',
  ),
  rowsRejected: counter(
    'delivery_rows_rejected_total',
    'Rows of list answers that could not be read and were left out, though others of the same page could. The round that met them counts as incomplete.',
    ['collector'],
  ),
  listsMissing: counter(
    'delivery_lists_missing_total',
    'Answers that should have been a list and could not be read as one: something else, an error beside the list, no row that can be read, pages without end. Nothing was taken from them.',
    ['collector'],
  ),
  requests: counter(
    'delivery_watch_api_requests_total',
    'Requests sent to the service, every try counted, by how they ended.',
    ['endpoint', 'outcome'],
  ),
  responseBytes: counter(
    'delivery_watch_api_response_bytes_total',
    'Bytes of answer bodies as they came over the wire, compressed where the service compresses.',
    ['endpoint'],
  ),
  budgetWait: counter(
    'delivery_watch_api_budget_wait_seconds_total',
    "Time requests waited for their turn in the account's budget.",
  ),
  budgetRemaining: gauge(
    'delivery_watch_api_budget_remaining',
    "Requests left of the account's configured budget for this UTC day. The count outlasts the process, to within 15 seconds.",
  ),
} as const;

/** The family of what is known of each account; its labels are those that the accounts have among them. */
export function accountInfoFamily(labels: readonly Readonly<Record<string, string>>[]): Family {
  const help =
    'Plan and state of the account, from the record of the last token reset, and its labels, as configured. Always 1.';
  return info('delivery_account_info', help, [
    'plan',
    'state',
    ...new Set(labels.flatMap(each => Object.keys(each)).sort()),
  ]);
}

/** A counter whose series are kept here and written by our own exposition. */
interface KeptCounter<L extends string> extends Counter<L> {
  samples(): readonly Sample<L>[];
}

export function createCounter<L extends string>(
  family: Family<L>,
  known: readonly Readonly<Record<L, string>>[],
  onChange: () => void,
): KeptCounter<L> {
  const series = new Map<string, { labels: Readonly<Record<L, string>>; value: number }>();
  const keyOf = (labels: Readonly<Record<L, string>>) => family.labels.map(name => labels[name]).join('\0');
  for (const labels of known) series.set(keyOf(labels), { labels, value: 0 });
  return {
    inc(labels, by = 1) {
      const key = keyOf(labels);
      const one = series.get(key);
      if (one) one.value += by;
      else series.set(key, { labels, value: by });
      onChange();
    },
    samples: () => [...series.values()],
  };
}

/** The counters of one account. Known label values start at 0, so that the first rise is seen as one. */
export interface AccountMeter {
  readonly requests: Counter<'endpoint' | 'outcome'>;
  readonly bytes: Counter<'endpoint'>;
  readonly budgetWait: Counter;
  readonly rowsRejected: Counter<'collector'>;
  readonly listsMissing: Counter<'collector'>;
  /** Rises with every change. */
  revision(): number;
  /** Requests counted, however they ended, and the bytes of their answers. */
  spent(): { readonly requests: number; readonly bytes: number };
  samples(): readonly [Family, readonly Sample[]][];
}

export function createAccountMeter(known: {
  readonly endpoints: readonly string[];
  readonly outcomes: readonly string[];
  readonly collectors: readonly string[];
}): AccountMeter {
  let revision = 0;
  const changed = () => {
    revision += 1;
  };
  const endpoints = known.endpoints.map(endpoint => ({ endpoint }));
  const requests = createCounter(
    ownFamilies.requests,
    endpoints.flatMap(({ endpoint }) => known.outcomes.map(outcome => ({ endpoint, outcome }))),
    changed,
  );
  const bytes = createCounter(ownFamilies.responseBytes, endpoints, changed);
  const budgetWait = createCounter(ownFamilies.budgetWait, [{}], changed);
  const lists = known.collectors.map(collector => ({ collector }));
  const rowsRejected = createCounter(ownFamilies.rowsRejected, lists, changed);
  const listsMissing = createCounter(ownFamilies.listsMissing, lists, changed);
  return {
    requests,
    bytes,
    budgetWait,
    rowsRejected,
    listsMissing,
    revision: () => revision,
    spent: () => {
      const sum = ({ samples }: KeptCounter<never>) => samples().reduce((sum, { value }) => sum + value, 0);
      return { requests: sum(requests), bytes: sum(bytes) };
    },
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

/** Samples of `delivery_up` and `delivery_collector_*`. */
export function statusSamples({ up, collectors }: AccountStatus): readonly [Family, readonly Sample[]][] {
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
    each(ownFamilies.success, status => truth(status.success)),
    each(ownFamilies.duration, status => status.durationSeconds),
    each(ownFamilies.dataTimestamp, status => (status.dataAt === undefined ? undefined : status.dataAt / 1000)),
    each(ownFamilies.dataComplete, status => truth(status.complete)),
    each(ownFamilies.dataStale, status => Number(status.stale)),
    each(ownFamilies.consecutiveFailures, status => status.consecutiveFailures),
  ];
}
