import { autoCancelFamilies } from '../../../metrics/auto-cancel.ts';
import { UNRESOLVED } from '../../../metrics/thresholds.ts';
import type { AccountCheck } from './check.ts';
import { lasting } from './words.ts';

const { breakerOpen, paused, oldestUnresolved } = autoCancelFamilies;

/** What keeps auto-cancel from acting, or was not brought to an end. */
export const AUTO_CANCEL: readonly AccountCheck[] = [
  {
    kind: 'cancel_unresolved',
    severity: 'critical',
    runbook: 'DeliveryAutoCancelUnresolved',
    when: 'a cancel was begun more than 30 minutes ago, and its outcome is not known',
    check: ({ shown, now }) =>
      shown.of(oldestUnresolved).flatMap(({ labels: { rule }, value }) => {
        const age = now / 1000 - value;
        if (rule === undefined || age <= UNRESOLVED) return [];
        return [
          {
            subject: rule,
            since: value * 1000,
            text: `A cancel by the rule ${rule} has had no known outcome for ${lasting(age)}.`,
          },
        ];
      }),
  },
  {
    kind: 'breaker_open',
    severity: 'warning',
    runbook: 'DeliveryAutoCancelBreakerOpen',
    when: 'a breaker of auto-cancel is open',
    check: ({ shown }) =>
      shown.of(breakerOpen).flatMap(({ labels: { breaker }, value }) =>
        breaker !== undefined && value === 1
          ? [
              {
                subject: breaker,
                text: `The breaker ${breaker} is open: nothing is cancelled until an operator resets it.`,
              },
            ]
          : [],
      ),
  },
  {
    kind: 'auto_cancel_paused',
    severity: 'info',
    runbook: null,
    when: 'an operator has paused auto-cancel',
    check: ({ shown }) =>
      shown.one(paused) === 1
        ? [{ text: 'Auto-cancel is paused: nothing is cancelled until an operator resumes it.' }]
        : [],
  },
];
