import { alerts as shippedAlerts } from '../mixin/rules.ts';
import { formatDuration, parseDuration } from '../src/kit/duration.ts';
import { BUILTIN_ALERTS, builtinAlert } from '../src/rules/checks/alerts.ts';
import type { BuiltinAlert } from '../src/rules/checks/check.ts';

type Reasons = Readonly<Record<string, string>>;

const HOUR_ONLY = 'They evaluate only the last hour and its last 5 or 15 minutes, so they do not detect slower burns.';

const NOT_PAUSED = 'Messages on paused keys do not count.';

const UNTIL_READ = 'Ends at the next complete read; the shipped alert evaluates 15 minutes.';

/** Differences between the conditions or durations of built-in alerts and those of the shipped alerts with the same name. */
export const DIFFERENCES: Readonly<Partial<Record<BuiltinAlert, string>>> = {
  DeliveryBlind: 'If no collector can read, one alert without the label `collector` fires instead of three.',
  DeliveryCollectorStale: 'Also fires if only a filter fails.',
  DeliveryListsMissing: UNTIL_READ,
  DeliveryRowsRejected: UNTIL_READ,
  DeliveryErrorBudgetFastBurn: HOUR_ONLY,
  DeliveryErrorBudgetSlowBurn: HOUR_ONLY,
  DeliveryOnTimeBudgetFastBurn: `${HOUR_ONLY} ${NOT_PAUSED}`,
  DeliveryOnTimeBudgetSlowBurn: `${HOUR_ONLY} ${NOT_PAUSED}`,
  DeliveryStalled: NOT_PAUSED,
  DeliveryDlqGrowing:
    'Evaluates 90 minutes, so it does not detect growth over six hours. Does not fire while the queue is below its maximum in the 80 minutes that ended ten minutes ago, so that a job may drain the queue every hour.',
  DeliveryRetryRatioHigh: 'Keeps firing while the ratio is unknown, so 15 minutes of `keepFiringFor` are enough.',
  DeliveryEventLogStale: 'Needs no `keepFiringFor`, because its condition is evaluated soon after a restart.',
  DeliveryScheduleMissed:
    'Ends at the next start, unless starts came between the misses of the last hour; the shipped alert fires for an hour after each miss.',
  DeliveryFailureCallbackStuck: 'Also fires for callbacks that an auto-cancel rule finds stuck.',
  DeliveryFlowControlBacklogGrowing:
    'Evaluates one hour, and waitlists of at least 50 messages; the shipped alert evaluates two hours, and waitlists of more than 100 messages.',
  DeliveryDispatchPausedWithBacklog: 'Fires at once, because it explains late messages that do not count.',
  DeliveryDatabaseAway:
    'The problem starts at the first failed renewal; the shipped alert evaluates three minutes of samples.',
};

/** Reasons why built-in alerts have no shipped counterpart. */
export const NOT_SHIPPED: Reasons = {
  DeliveryClockSkew: 'Not shipped, because the agent already corrects ages and windows by the difference.',
  DeliveryAutoCancelFailed: 'Not shipped, because no metric shows it.',
  DeliveryAutoCancelPaused: 'Not shipped, because a pause is an operator’s decision.',
};

/** Reasons why shipped alerts have no built-in counterpart. */
export const NOT_BUILT_IN: Reasons = {
  DeliveryAgentDown: 'An agent cannot report its own absence: use a [heartbeat](notifiers.md#heartbeat).',
  DeliveryInstanceDown: 'As for DeliveryAgentDown.',
  DeliveryAgentCrashLooping: 'A process has only its own start time, not those of earlier processes.',
  DeliveryNoLeader: 'Without a leader, nothing is sent.',
  DeliveryTwoLeaders: 'Only Prometheus has the samples of both processes.',
  DeliveryDestinationFailing: 'The problem `dlq_growing` names the largest kind in the queue.',
  DeliveryDlqFirstEntry: 'The status page lists the newest dead letters.',
  DeliveryDlqNewKind: 'The status page lists the kinds of dead letters.',
  DeliveryParallelismNearlyUsed:
    'The status page shows the usage of each key; nightly batches may use all parallelism.',
};

/** Returns `for` and `keepFiringFor` of a shipped alert (ms), with the same defaults as `mixin/rules.ts`. */
export const timesOf = (alert: (typeof shippedAlerts)[number]) => ({
  for: parseDuration(alert.for ?? '0s') ?? 0,
  keepFiringFor: parseDuration(alert.keepFiringFor ?? '0s') ?? 0,
});

const shipped = new Map<string, (typeof shippedAlerts)[number]>(shippedAlerts.map(alert => [alert.name, alert]));

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

/** Returns a Markdown table of the differences between built-in and shipped alerts. */
export function differencesTable(): string {
  const differing = Map.groupBy(BUILTIN_ALERTS, differenceOf);
  const rows = [...differing]
    .filter(([text]) => text !== '')
    .map(([text, names]) => `| ${names.join(', ')} | ${text} |`);
  return ['| alert | difference |', '|---|---|', ...rows].join('\n');
}

export function notBuiltInTable(): string {
  const rows = Object.entries(NOT_BUILT_IN).map(([name, why]) => `| ${name} | ${why} |`);
  return ['| alert | reason |', '|---|---|', ...rows].join('\n');
}
