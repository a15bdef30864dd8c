import { NO_ACCOUNT } from '../store/store.ts';
import { type AccountAlerts, type AccountAlertsDeps, openAccountAlerts } from './account-alerts.ts';
import { createEvaluation, type EvaluationDeps } from './evaluation.ts';
import type { AlertRule } from './options.ts';
import { createSendLimits, type SendLimits } from './send-limits.ts';

export interface OverflowDeps
  extends Pick<AccountAlertsDeps, 'store' | 'outbox' | 'holds' | 'silences' | 'log'>,
    Pick<EvaluationDeps, 'clock'> {
  readonly rules: readonly AlertRule[];
  /** Of all accounts. */
  readonly limits: SendLimits;
  /** Its alerts under another configuration. */
  readonly before?: AccountAlerts | undefined;
}

/**
 * One alert for each rule of which alerts are not sent, because too many are: it belongs to no account, and says how many.
 * Rejects with StoreError.
 */
export async function openOverflow({ rules, limits, before, ...deps }: OverflowDeps): Promise<{
  readonly alerts: AccountAlerts;
  /** What decides which of them is sent. */
  readonly limits: SendLimits;
  readonly evaluate: () => Promise<void>;
}> {
  // It is always sent.
  const own = createSendLimits(new Map(rules.map(({ name }) => [name, 1])), []);
  const alerts = before ?? (await openAccountAlerts({ ...deps, account: NO_ACCOUNT, rules, limits: own }));
  const evaluate = createEvaluation({
    ...deps,
    alerts,
    rules: rules.map(rule => ({ ...rule, for: 0, limit: 1, annotations: { summary: summaryOf(rule) } })),
    judge({ name }) {
      const leftOut = limits.leftOut(name);
      if (leftOut === undefined) return 'unknown';
      return leftOut > 0 ? [{ labels: { overflow: 'true' }, value: leftOut }] : [];
    },
    isDoubtful: () => false,
  });
  return { alerts, limits: own, evaluate };
}

const summaryOf = ({ name, limit }: AlertRule) =>
  `{{ $value }} more alerts of ${name} fire than the ${limit} that are sent at a time.`;
