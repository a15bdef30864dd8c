import { alerts as shippedAlerts } from '../mixin/rules.ts';
import { formatDuration, parseDuration } from '../src/kit/duration.ts';
import { BUILTIN_ALERTS, type BuiltinAlert, builtinAlert } from '../src/rules/checks/alerts.ts';

type Reasons = Readonly<Record<string, string>>;

const HOUR_ONLY = 'The agent keeps an hour: it compares one hour with its end, and detects no slower burns.';

/** How conditions or times of built-in alerts differ from those of the shipped alerts, and why. */
export const DIFFERENCES: Readonly<Partial<Record<BuiltinAlert, string>>> = {
  DeliveryBlind: 'Without the label `collector` if no collector can be read: one alert instead of three.',
  DeliveryCollectorStale: 'Also for a filter that fails alone.',
  DeliveryErrorBudgetFastBurn: HOUR_ONLY,
  DeliveryErrorBudgetSlowBurn: HOUR_ONLY,
  DeliveryOnTimeBudgetFastBurn: HOUR_ONLY,
  DeliveryOnTimeBudgetSlowBurn: HOUR_ONLY,
  DeliveryDlqGrowing:
    'Sees 75 minutes: detects no growth over six hours, and compares with the smallest size an hour ago, not the largest.',
  DeliveryFailureCallbackStuck: 'Also callbacks that a rule of auto-cancel calls stuck.',
  DeliveryFlowControlBacklogGrowing:
    'From 50 messages within the recorded hour; the shipped alert compares two hours, from 100.',
  DeliveryFlowControlGhostSlots: 'A key that cannot be judged keeps its alert anyway, so 15 minutes are enough.',
  DeliveryDispatchPausedWithBacklog: 'The check itself waits an hour, because the page calls it info before.',
  DeliveryDatabaseAway:
    'The replica notices at its first failed renewal; the shipped alert needs three minutes of samples.',
  DeliveryAccountUncollected:
    'Shown only: each replica would send it. The check itself waits two minutes without a report.',
};

/** Why a built-in alert has no shipped one. */
export const NOT_SHIPPED: Reasons = {
  DeliveryAutoCancelPaused: 'An operator’s decision: worth knowing on the page only.',
};

/** Why a shipped alert has no built-in one. */
export const NOT_BUILT_IN: Reasons = {
  DeliveryAgentDown: 'An agent cannot report its own absence: use the [heartbeat](notifiers.md#heartbeat).',
  DeliveryInstanceDown: 'As above. Other replicas report accounts that none collects.',
  DeliveryAgentCrashLooping: 'Each process only has its own start.',
  DeliveryAccountHeldTwice: 'A replica that lost its lease stops; only Prometheus has the samples of both.',
  DeliveryDestinationFailing: 'Failed messages name the largest kind of dead letters.',
  DeliveryDlqFirstEntry: 'Info: the page lists the newest dead letters.',
  DeliveryDlqNewKind: 'Info: the page lists the kinds of dead letters.',
  DeliveryParallelismNearlyUsed: 'The page shows the use of each key; nightly batches use all of it.',
};

/** Times of a shipped alert (ms), as `rules.ts` of the mixin writes them. */
export const timesOf = (alert: (typeof shippedAlerts)[number]) => ({
  for: parseDuration(alert.for ?? '0s') ?? 0,
  keepFiringFor: parseDuration(alert.keepFiringFor ?? '15m') ?? 0,
});

const shipped = new Map<string, (typeof shippedAlerts)[number]>(shippedAlerts.map(alert => [alert.name, alert]));

/** The severity of an alert may depend on its value. */
const severityOf = (name: string) => {
  const { severity = '' } = shipped.get(name) ?? {};
  return severity.includes('{{') ? 'warning or critical' : severity;
};

const written = (ms: number) => (ms === 0 ? '0s' : formatDuration(ms));

function differenceOf(name: BuiltinAlert): string {
  const alert = shipped.get(name);
  if (!alert) return NOT_SHIPPED[name] ?? '';
  const times = timesOf(alert);
  const own = builtinAlert(name);
  const other = [
    times.for === own.for ? [] : `Shipped \`for\`: ${written(times.for)}`,
    times.keepFiringFor === own.keepFiringFor ? [] : `Shipped \`keep_firing_for\`: ${written(times.keepFiringFor)}`,
  ].flat();
  return [DIFFERENCES[name], ...other.map(text => `${text}.`)].filter(Boolean).join(' ');
}

/** The built-in alerts with their differences from the shipped ones, as Markdown. */
export function alertTable(): string {
  const rows = BUILTIN_ALERTS.map(name => {
    const { kinds, severity, for: pending, keepFiringFor } = builtinAlert(name);
    const times = `${written(pending)}, ${written(keepFiringFor)}`;
    const words = kinds.map(kind => `\`${kind}\``).join(', ');
    return `| ${name} | ${words} | ${severity} | ${times} | ${shipped.get(name)?.set ?? '–'} | ${differenceOf(name)} |`;
  });
  const others = Object.entries(NOT_BUILT_IN).map(
    ([name, why]) => `| ${name} | ${severityOf(name)} | ${shipped.get(name)?.set} | ${why} |`,
  );
  return [
    '| alert | kinds of problems | severity | `for`, `keepFiringFor` | shipped in set | differs from the shipped alert |',
    '|---|---|---|---|---|---|',
    ...rows,
    '',
    'Shipped alerts without a built-in one:',
    '',
    '| alert | severity | set | reason |',
    '|---|---|---|---|',
    ...others,
  ].join('\n');
}
