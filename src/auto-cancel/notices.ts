import type { JournalEntry, JournalTarget } from '../model/journal.ts';
import type { Notice } from '../notify/notice.ts';
import type { NoticeSource } from '../notify/sent-log.ts';
import type { Journal } from './journal.ts';
import { urlOf } from './journal-state.ts';
import type { AutoCancelRule } from './options.ts';
import { ENDED } from './words.ts';

/** How long Alertmanager keeps a notice firing (ms): longer than its usual group interval. */
const LASTS = 15 * 60_000;

type Notified = Extract<JournalEntry, { step: 'marked' | 'awaiting_approval' | 'ended' }>;

function wordsOf(entry: Notified): readonly [name: string, summary: string] {
  const { account } = entry.target;
  if (entry.step !== 'ended') {
    const until = new Date(entry.until).toISOString();
    return entry.step === 'marked'
      ? ['Marked', `A failure callback of ${account} seems stuck; a walk after ${until} evaluates it again.`]
      : [
          'AwaitingApproval',
          `A stuck failure callback of ${account} waits for approval by an operator until ${until}.`,
        ];
  }
  return entry.outcome === 'planned'
    ? ['Planned', `A stuck failure callback of ${account} would be cancelled.`]
    : ['Ended', `The cancel of a failure callback of ${account} ended (${entry.outcome}): ${ENDED[entry.outcome]}.`];
}

function annotationsOf(target: JournalTarget) {
  const { workflowRunId, responseStatus, dlqId, messageId } = target;
  const all = {
    workflow_run_id: workflowRunId,
    url: urlOf(target),
    response_status: responseStatus,
    dlq_id: dlqId,
    message_id: messageId,
  };
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  );
}

/** Returns the notice of a journal line; undefined if the line has no notice. */
function noticeOf(entry: JournalEntry): Notice | undefined {
  if (entry.step !== 'marked' && entry.step !== 'awaiting_approval' && entry.step !== 'ended') return undefined;
  const { rule, action, at, target } = entry;
  const [name, summary] = wordsOf(entry);
  const { outcome, reason } = entry.step === 'ended' ? entry : {};
  return {
    status: 'firing',
    labels: {
      alertname: `DeliveryAutoCancel${name}`,
      account: target.account,
      rule,
      action,
      severity: 'info',
      ...(outcome && { outcome }),
    },
    annotations: { summary, ...annotationsOf(target), ...(reason && { reason }) },
    startsAt: at,
    lasts: LASTS,
  };
}

export function createNoticeSource(
  account: string,
  journal: Pick<Journal, 'last' | 'after'>,
  rules: readonly Pick<AutoCancelRule, 'name' | 'notify'>[],
): NoticeSource {
  const notifiers = new Map(rules.map(({ name, notify }) => [name, notify]));
  return {
    account,
    last: journal.last,
    async after(after) {
      return (await journal.after(after)).map(([number, entry]) => {
        const notice = noticeOf(entry);
        return { number, at: entry.at, notice, notifiers: notifiers.get(notice?.labels.rule ?? '') };
      });
    },
  };
}
