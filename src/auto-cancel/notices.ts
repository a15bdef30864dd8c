import type { Notice } from '../alerts/notice.ts';
import type { Outbox, Posting } from '../alerts/outbox.ts';
import type { JournalEntry, JournalTarget } from '../model/journal.ts';
import type { Rule } from './options.ts';

/** Milliseconds for which Alertmanager holds such a notice: longer than it usually waits before it tells of a group again. */
const LASTS = 15 * 60_000;

type Told = Extract<JournalEntry, { step: 'marked' | 'awaiting_approval' | 'ended' }>;

function isTold(entry: JournalEntry): entry is Told {
  return entry.step === 'marked' || entry.step === 'awaiting_approval' || entry.step === 'ended';
}

const NAMES = {
  marked: 'DeliveryAutoCancelMarked',
  awaiting_approval: 'DeliveryAutoCancelAwaitingApproval',
  planned: 'DeliveryAutoCancelPlanned',
  ended: 'DeliveryAutoCancelEnded',
} as const;

/** The decision as a name, and as a sentence. */
function wordsOf(entry: Told): { readonly name: string; readonly summary: string } {
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
      ? `A failure callback of ${account} looks stuck, and is judged again after ${until}.`
      : `A stuck failure callback of ${account} may be cancelled if an operator approves until ${until}.`;
  return { name: NAMES[entry.step], summary };
}

/** What the callback would have told its owner. */
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

/** The notice that a line of the journal makes, and the rule whose notifiers get it; undefined where it makes none. */
function noticeOf(entry: JournalEntry): { readonly rule: string; readonly notice: Notice } | undefined {
  if (!isTold(entry)) return undefined;
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

/** Makes the postings for lines of an account's journal: each to the notifiers that the line's rule names. */
export function createNotices(
  account: string,
  rules: readonly Pick<Rule, 'name' | 'notify'>[],
  outbox: Pick<Outbox, 'post'>,
): (entries: readonly JournalEntry[]) => readonly Posting[] {
  const notifiers = new Map(rules.map(({ name, notify }) => [name, notify]));
  return entries =>
    entries.flatMap(entry => {
      const made = noticeOf(entry);
      const names = made && notifiers.get(made.rule);
      return made && names ? [outbox.post(account, [made.notice], ({ notifier }) => names.includes(notifier))] : [];
    });
}
