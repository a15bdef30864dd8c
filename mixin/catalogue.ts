import { BUILTIN_KINDS, type BuiltinKind } from '../src/rules/checks/alerts.ts';

/** An alert of the agent that has a rule of its own, and the kinds of problems for which it is sent. */
export interface NamedAlert {
  readonly alert: `Delivery${string}`;
  readonly kinds: readonly string[];
  /** One sentence without numbers. May use `$labels`. */
  readonly summary: string;
}

const ACCOUNT = '{{ $labels.account }}';

/** Severity of problems that are not sent by default. */
export const NOT_SENT = 'info';

const kindsWhere = (isIncluded: (kind: BuiltinKind) => boolean) =>
  BUILTIN_KINDS.filter(isIncluded).map(({ kind }): string => kind);

/** Kinds that are not sent by default. */
const UNSENT = kindsWhere(({ severity, isOff }) => severity === NOT_SENT || isOff === true);
const OFF = kindsWhere(({ isOff }) => isOff === true);

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
  kinds: kindsWhere(kind => kind.alert === alert && kind.severity !== NOT_SENT),
  summary,
}));

const named = NAMED.flatMap(({ kinds }) => kinds);
const wordOf = (kind: string) => kind.slice(0, kind.indexOf('_') + 1);
const others = kindsWhere(({ kind }) => ![...named, ...UNSENT].includes(kind));
const kept = new Set(others.map(wordOf));
const byWord = Map.groupBy([...named, ...OFF], wordOf);

/** Pattern of the kinds that are not sent as DeliveryProblem. Several kinds with the same first word are combined. */
export const NOT_OTHER = [...byWord]
  .flatMap(([word, kinds]) => (kinds.length > 1 && !kept.has(word) ? `${word}.+` : kinds))
  .join('|');
