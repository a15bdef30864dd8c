import { BUILTIN_KINDS, type BuiltinKind } from '../src/rules/checks/alerts.ts';

/** An alert with a separate rule, and the kinds of problems for which it fires. */
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

const wordOf = (kind: string) => kind.slice(0, kind.indexOf('_') + 1);

/** Returns a pattern of kinds. Kinds with the same first word become `word_.+` if no other kind with this word is sent. */
export function patternOf(kinds: readonly string[]): string {
  const isSent = ({ severity, isOff }: BuiltinKind) => severity !== NOT_SENT && isOff !== true;
  const others = new Set(kindsWhere(kind => isSent(kind) && !kinds.includes(kind.kind)).map(wordOf));
  return [...Map.groupBy(kinds, wordOf)]
    .flatMap(([word, some]) => (some.length > 1 && !others.has(word) ? `${word}.+` : some))
    .join('|');
}

const OFF = kindsWhere(({ isOff }) => isOff === true);

const SUMMARIES: Readonly<Record<`Delivery${string}`, string>> = {
  DeliveryTokenRejected: `The service rejects the token of ${ACCOUNT}.`,
  DeliveryBlind: `The agent cannot read data of ${ACCOUNT}{{ with $labels.subject }} (collector {{ . }}){{ end }}.`,
  DeliveryErrorBudgetFastBurn: `Messages of ${ACCOUNT} fail so often that its error budget is spent within days.`,
  DeliveryErrorBudgetSlowBurn: `Messages of ${ACCOUNT} fail more often than its objective allows.`,
  DeliveryMessagesLate: `Messages of ${ACCOUNT} are not delivered in time.`,
  DeliveryDestinationFailing: `Deliveries of ${ACCOUNT} to {{ $labels.subject }} fail.`,
  DeliveryDlqGrowing: `The dead-letter queue of ${ACCOUNT} is growing.`,
  DeliveryDlqExpiringSoon: `Dead letters of ${ACCOUNT} may be lost, because they expire or the queue is nearly full.`,
  DeliveryFailureCallbackStuck: `Failure callbacks of ${ACCOUNT} are stuck.`,
  DeliveryScheduleFailing: `The schedule {{ $labels.subject }} of ${ACCOUNT} needs attention: it did not run as expected, or is paused or gone.`,
};

export const NAMED: readonly NamedAlert[] = Object.entries(SUMMARIES).map(([alert, summary]) => ({
  alert: alert as NamedAlert['alert'],
  kinds: kindsWhere(kind => kind.alert === alert && kind.severity !== NOT_SENT),
  summary,
}));

const named = NAMED.flatMap(({ kinds }) => kinds);

/** Pattern of the kinds that are not sent as DeliveryProblem. */
export const NOT_OTHER = patternOf([...named, ...OFF]);
