import { MINUTE } from '../../kit/duration.ts';
import { UNRESOLVED } from '../../metrics/thresholds.ts';
import { type AccountCheck, defineCheck } from './check.ts';
import { durationText, longText } from './words.ts';

export const AUTO_CANCEL: readonly AccountCheck[] = [
  defineCheck('cancel_unresolved', 'DeliveryAutoCancelUnresolved', {
    severity: 'critical',
    for: 5 * MINUTE,
    when: `a cancel started more than ${longText(UNRESOLVED)} ago, and the agent still does not know its outcome`,
    check: ({ autoCancel, now }) =>
      [...(autoCancel?.unresolved ?? [])].flatMap(([subject, since]) => {
        const age = now - since;
        const text = `A cancel by the rule ${subject} has had no known outcome for ${durationText(age / 1000)}.`;
        return age > UNRESOLVED ? { subject, since, text } : [];
      }),
  }),
  defineCheck('breaker_open', 'DeliveryAutoCancelBreakerOpen', {
    when: 'a breaker of auto-cancel is open',
    check: ({ autoCancel }) =>
      [...(autoCancel?.breakers ?? [])].flatMap(([subject, isOpen]) => {
        const text = `The breaker ${subject} is open: nothing is cancelled until an operator resets it.`;
        return isOpen ? { subject, text } : [];
      }),
  }),
  defineCheck('auto_cancel_paused', 'DeliveryAutoCancelBreakerOpen', {
    severity: 'info',
    when: 'an operator has paused auto-cancel',
    check: ({ autoCancel }) =>
      autoCancel?.isPaused ? 'Auto-cancel is paused: nothing is cancelled until an operator resumes it.' : [],
  }),
  defineCheck('auto_cancel_failed', 'DeliveryAutoCancelUnresolved', {
    for: MINUTE,
    when: 'the agent could not start auto-cancel, for example because a line of the auto-cancel journal is damaged',
    check: ({ autoCancelFailure }) => (autoCancelFailure ? `Auto-cancel is off: ${autoCancelFailure.message}` : []),
  }),
];
