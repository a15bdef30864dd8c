/** A family or record of 0.1.0 that has another name now. */
export interface Renamed {
  readonly old: string;
  /** Labels of the series meant, with their value; `…`: any that no other entry names. */
  readonly where?: Readonly<Record<string, string>>;
  /** As it is written in PromQL. */
  readonly now: string;
}

const OF_QUEUE = [
  'messages',
  'oldest_message_timestamp_seconds',
  'newest_message_timestamp_seconds',
  'oldest_entered_timestamp_seconds',
  'entered_total',
  'left_total',
];

const DIMENSIONS = {
  urlHost: 'url_host',
  method: 'method',
  state: 'state',
  topic: 'topic',
  queue: 'queue',
  schedule: 'schedule',
  label: 'label',
  responseStatus: 'response_status',
  api: 'api',
  callbackState: 'callback_state',
};

const BLIND = 'account_collector:delivery_collector_data_stale:min';

/** Every name that changed since 0.1.0: docs/upgrading.md and what check-config says of old names are made from it. */
export const RENAMED: readonly Renamed[] = [
  ...OF_QUEUE.flatMap((name): Renamed[] => [
    { old: `delivery_dlq_${name}`, where: { filter: 'all' }, now: `delivery_dlq_${name}` },
    { old: `delivery_dlq_${name}`, where: { filter: '…' }, now: `delivery_dlq_filter_${name}{filter="…"}` },
  ]),
  ...Object.entries(DIMENSIONS).map(([dimension, label]) => ({
    old: 'delivery_dlq_breakdown_messages',
    where: { dimension, value: '…' },
    now: `delivery_dlq_messages_by_${label}{${label}="…"}`,
  })),
  {
    old: 'delivery_auto_cancel_budget_remaining',
    where: { rule: '…' },
    now: 'delivery_auto_cancel_rule_budget_remaining{rule="…"}',
  },
  ...[
    'api_requests_total',
    'api_request_duration_seconds',
    'api_response_bytes_total',
    'api_budget_wait_seconds_total',
    'api_budget_remaining',
    'alerts',
    'notifications_total',
  ].map(name => ({ old: `delivery_${name}`, now: `delivery_watch_${name}` })),
  { old: 'account_collector:delivery_blind:min', now: BLIND },
  { old: 'account_collector:delivery_alerts_blind:min', now: BLIND },
  ...['5m', '30m', '1h', '6h'].map(window => ({
    old: `account:delivery_error_ratio:rate${window}`,
    now: `account:delivery_messages_failed_per_finished:ratio_increase${window}`,
  })),
  { old: 'account:delivery_finished:increase1h', now: 'account:delivery_messages_finished:increase1h' },
];

/**
 * How series of 0.1.0 with these labels are written now; empty where their name has not changed. `gone`: a label that the
 * family no longer has.
 */
export function namesNow(
  metric: string,
  labels: Readonly<Record<string, readonly string[]>>,
  gone?: string,
): readonly string[] {
  const rows = RENAMED.filter(({ old, where = {} }) => old === metric && (gone === undefined || gone in where));
  const isMeant = ([label, value]: readonly [string, string]) => {
    const named = rows.map(({ where }) => where?.[label]);
    return labels[label]?.some(given => (value === '…' ? !named.includes(given) : given === value)) ?? true;
  };
  return rows.filter(({ where = {} }) => Object.entries(where).every(isMeant)).map(({ now }) => now);
}

/** The table of docs/upgrading.md. */
export function renamedTable(): string {
  const rows = RENAMED.map(({ old, where, now }) => {
    const labels = Object.entries(where ?? {}).map(([label, value]) => `${label}="${value}"`);
    return `| \`${old}${labels.length === 0 ? '' : `{${labels.join(',')}}`}\` | \`${now}\` |`;
  });
  return ['| 0.1.0 | now |', '|---|---|', ...rows].join('\n');
}
