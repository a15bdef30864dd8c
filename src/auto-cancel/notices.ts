import type { Notice, Outbox } from '../alerts/index.ts';
import type { JournalEntry, JournalTarget } from '../model/journal.ts';
import type { Journal } from './journal.ts';

/** Milliseconds for which Alertmanager keeps such a notice: longer than its usual `group_interval`. */
const LASTS = 15 * 60_000;

type Notified = Extract<JournalEntry, { step: 'marked' | 'awaiting_approval' | 'ended' }>;

function isNotified(entry: JournalEntry): entry is Notified {
  return entry.step === 'marked' || entry.step === 'awaiting_approval' || entry.step === 'ended';
}

const NAMES = {
  marked: 'DeliveryAutoCancelMarked',
  awaiting_approval: 'DeliveryAutoCancelAwaitingApproval',
  planned: 'DeliveryAutoCancelPlanned',
  ended: 'DeliveryAutoCancelEnded',
} as const;

/** The decision as a name, and as a sentence. */
function wordsOf(entry: Notified): { readonly name: string; readonly summary: string } {
  const { account } = entry.target;
  if (entry.step === 'ended') {
    const isPlan = entry.outcome === 'planned';
    return {
      name: isPlan ? NAMES.planned : NAMES.ended,
      summary: isPlan
        ? `A stuck failure callback of ${account} would be cancelled.`
        : `The cancel of a failure callback of ${account} has ended: ${entry.outcome}.`,
    };
  }
  const until = new Date(entry.until).toISOString();
  const summary =
    entry.step === 'marked'
      ? `A failure callback of ${account} looks stuck; it is judged again after ${until}.`
      : `A stuck failure callback of ${account} is cancelled if an operator approves it before ${until}.`;
  return { name: NAMES[entry.step], summary };
}

/** What the callback would have told the owner of its workflow. */
function annotationsOf({ workflowRunId, workflowUrl, url, responseStatus, dlqId, messageId }: JournalTarget) {
  const all = {
    workflow_run_id: workflowRunId,
    url: workflowUrl ?? url,
    response_status: responseStatus,
    dlq_id: dlqId,
    message_id: messageId,
  };
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  );
}

/** What a line of the journal is worth sending to the notifiers of its rule; undefined for other lines. */
function noticeOf(entry: JournalEntry): { readonly rule: string; readonly notice: Notice } | undefined {
  if (!isNotified(entry)) return undefined;
  const { rule, action, at, target } = entry;
  const { name, summary } = wordsOf(entry);
  const outcome: Record<string, string> = entry.step === 'ended' ? { outcome: entry.outcome } : {};
  const reason: Record<string, string> = entry.step === 'ended' ? { reason: entry.reason } : {};
  return {
    rule,
    notice: {
      status: 'firing',
      labels: { alertname: name, account: target.account, rule, action, severity: 'info', ...outcome },
      annotations: { summary, ...annotationsOf(target), ...reason },
      startsAt: at,
      lasts: LASTS,
    },
  };
}

/** The same journal; what its lines are worth sending is put into the outbox in the same transaction. `notify`: notifiers by rule. */
export function withNotifications(
  account: string,
  journal: Journal,
  outbox: Pick<Outbox, 'post'>,
  notify: ReadonlyMap<string, readonly string[]>,
): Journal {
  return {
    state: journal.state,
    async append(entries, changes = []) {
      const postings = entries.flatMap(entry => {
        const found = noticeOf(entry);
        const notifiers = notify.get(found?.rule ?? '') ?? [];
        return found ? [outbox.post(account, [found.notice], ({ notifier }) => notifiers.includes(notifier))] : [];
      });
      await journal.append(entries, [...changes, ...postings.flatMap(posting => posting.changes())]);
      for (const posting of postings) posting.send();
    },
  };
}
