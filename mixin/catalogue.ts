/** An alert of the agent that has a rule of its own, and the kinds of problems for which it is sent. */
export interface NamedAlert {
  readonly alert: `Delivery${string}`;
  readonly kinds: readonly string[];
  /** One sentence without numbers. May use `$labels`. */
  readonly summary: string;
}

const ACCOUNT = '{{ $labels.account }}';

/** Kinds of problems by the alert of the agent that reports them. */
export const CATALOGUE: Readonly<Record<string, readonly string[]>> = {
  DeliveryTokenRejected: ['token_rejected'],
  DeliveryBlind: ['service_unavailable', 'data_withdrawn', 'data_stale'],
  DeliveryErrorBudgetFastBurn: ['messages_failing'],
  DeliveryErrorBudgetSlowBurn: ['messages_failing_slowly'],
  DeliveryMessagesLate: ['messages_late', 'deliveries_stalled'],
  DeliveryDestinationFailing: ['destination_failing', 'retries_high'],
  DeliveryDlqGrowing: ['dlq_growing'],
  DeliveryDlqExpiringSoon: ['dlq_expiring', 'dlq_nearly_full', 'retention_too_short'],
  DeliveryDeadLetters: ['dlq_first_entry', 'dlq_old'],
  DeliveryFailureCallbackStuck: ['callbacks_stuck', 'callbacks_failing'],
  DeliveryFlowControlBacklogGrowing: ['waitlist_growing'],
  DeliveryWaitlistStalled: ['waitlist_stalled'],
  DeliveryDispatchPausedWithBacklog: ['paused_with_backlog'],
  DeliveryScheduleFailing: ['schedule_missed', 'schedule_late'],
  DeliveryEventLogStale: ['event_log_behind'],
  DeliveryDataIncomplete: ['round_stale', 'rows_unreadable', 'lists_missing', 'filter_failing', 'event_log_gap'],
  DeliveryReadingThrottled: ['rate_limited', 'budget_low'],
  DeliveryClockSkew: ['clock_skew'],
  DeliveryStoreFailing: ['store_failing', 'database_away'],
  DeliveryOutputFailing: ['notifications_failing'],
  DeliveryConfigReloadFailed: ['reload_refused'],
  DeliveryAutoCancelBreakerOpen: ['breaker_open', 'auto_cancel_paused'],
  DeliveryAutoCancelUnresolved: ['cancel_unresolved', 'auto_cancel_failed'],
};

/** Kinds that are not sent by default because of their severity, and those that are off. */
export const INFO: readonly string[] = ['retries_high', 'callbacks_failing', 'event_log_gap', 'auto_cancel_paused'];
export const OFF: readonly string[] = ['dlq_first_entry', 'dlq_old'];

const SUMMARIES: Readonly<Record<`Delivery${string}`, string>> = {
  DeliveryTokenRejected: `The service rejects the token of ${ACCOUNT}.`,
  DeliveryBlind: `The agent cannot read {{ with $labels.subject }}{{ . }} of {{ end }}${ACCOUNT}.`,
  DeliveryErrorBudgetFastBurn: `Messages of ${ACCOUNT} fail so often that its error budget is spent within days.`,
  DeliveryErrorBudgetSlowBurn: `Messages of ${ACCOUNT} fail more often than its objective allows.`,
  DeliveryMessagesLate: `Messages of ${ACCOUNT} are not delivered in time.`,
  DeliveryDestinationFailing: `Deliveries of ${ACCOUNT} to {{ $labels.subject }} fail.`,
  DeliveryDlqGrowing: `The dead-letter queue of ${ACCOUNT} is growing.`,
  DeliveryDlqExpiringSoon: `Dead letters of ${ACCOUNT} may be lost, because they expire or the queue is nearly full.`,
  DeliveryFailureCallbackStuck: `Failure callbacks of ${ACCOUNT} are stuck.`,
  DeliveryScheduleFailing: `The schedule {{ $labels.subject }} of ${ACCOUNT} did not start or deliver in time.`,
};

export const NAMED: readonly NamedAlert[] = Object.entries(SUMMARIES).map(([alert, summary]) => ({
  alert: alert as NamedAlert['alert'],
  kinds: (CATALOGUE[alert] ?? []).filter(kind => !INFO.includes(kind)),
  summary,
}));

const named = NAMED.flatMap(({ kinds }) => kinds);
const wordOf = (kind: string) => kind.slice(0, kind.indexOf('_') + 1);
const others = Object.values(CATALOGUE)
  .flat()
  .filter(kind => ![...named, ...OFF, ...INFO].includes(kind));
const kept = new Set(others.map(wordOf));
const byWord = Map.groupBy([...named, ...OFF], wordOf);

/** Pattern of the kinds that are not sent as DeliveryProblem. Several kinds with the same first word are combined. */
export const NOT_OTHER = [...byWord]
  .flatMap(([word, kinds]) => (kinds.length > 1 && !kept.has(word) ? `${word}.+` : kinds))
  .join('|');

/** Severity of problems that are not sent by default. */
export const NOT_SENT = 'info';
