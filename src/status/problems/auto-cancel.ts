import { UNRESOLVED } from '../../metrics/thresholds.ts';
import type { AccountCheck } from './check.ts';
import { lasting } from './words.ts';

export const AUTO_CANCEL: readonly AccountCheck[] = [
  {
    kind: 'cancel_unresolved',
    severity: 'critical',
    runbook: 'DeliveryAutoCancelUnresolved',
    when: 'a cancel was begun more than 30 minutes ago, and its outcome is not known',
    check: ({ autoCancel, now }) =>
      [...(autoCancel?.unresolved ?? [])].flatMap(([rule, since]) => {
        const age = (now - since) / 1000;
        if (age <= UNRESOLVED) return [];
        return {
          subject: rule,
          since,
          text: `A cancel by the rule ${rule} has had no known outcome for ${lasting(age)}.`,
        };
      }),
  },
  {
    kind: 'breaker_open',
    severity: 'warning',
    runbook: 'DeliveryAutoCancelBreakerOpen',
    when: 'a breaker of auto-cancel is open',
    check: ({ autoCancel }) =>
      [...(autoCancel?.breakers ?? [])].flatMap(([breaker, isOpen]) =>
        isOpen
          ? {
              subject: breaker,
              text: `The breaker ${breaker} is open: nothing is cancelled until an operator resets it.`,
            }
          : [],
      ),
  },
  {
    kind: 'auto_cancel_paused',
    severity: 'info',
    runbook: null,
    when: 'an operator has paused auto-cancel',
    check: ({ autoCancel }) =>
      autoCancel?.isPaused ? { text: 'Auto-cancel is paused: nothing is cancelled until an operator resumes it.' } : [],
  },
];
