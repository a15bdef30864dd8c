import type { Action } from '../../src/auto-cancel/journal-state.ts';
import type { JournalEntry, JournalTarget } from '../../src/model/journal.ts';

export const TARGET: JournalTarget = {
  account: 'production',
  id: 'd',
  dlqId: 'd',
  messageId: 'm',
  workflowRunId: undefined,
  url: 'https://u.example.com/',
  workflowUrl: 'https://w.example.com/',
  responseStatus: 500,
  episode: 'e',
};
const about = { action: 'x', rule: 'jobs', target: TARGET, evidence: [] };

/**
 * Parses a line: `marked 30`, `intent 1`, `intent 2 blind`, `answered 1 unknown`, `ended confirmed`. `at`: time of
 * the line.
 */
export function line(words: string, at: number): JournalEntry {
  const [step, one = '', two = ''] = words.split(' ');
  switch (step) {
    case 'marked':
    case 'awaiting_approval':
      return { at, ...about, step, mode: 'approve', policy: 'p', until: Number(one) };
    case 'cleared':
      return { at, action: 'x', step, reason: 'r' };
    case 'approved':
      return { at, action: 'x', step, by: one };
    case 'intent':
      return {
        at,
        ...about,
        step,
        attempt: Number(one),
        mode: 'enforce',
        blind: two === 'blind',
        sendBy: at,
        policy: 'p',
      };
    case 'answered':
      return { at, action: 'x', step, attempt: Number(one), answer: { kind: two, status: 500 } as never };
    case 'ended':
      return { at, ...about, step, outcome: one as never, mode: 'enforce', reason: 'r' };
    case 'paused':
    case 'resumed':
      return { at, step, by: 'ann', reason: 'r' };
    case 'breaker_opened':
      return { at, step, breaker: one as never, reason: 'r' };
    default:
      return { at, step: 'breaker_reset', breaker: one as never, by: 'ann', reason: 'r' };
  }
}

/** Parses comma-separated lines. The time of each line is its number, starting at 1. */
export const linesOf = (text: string) => text.split(', ').map((words, index) => line(words, index + 1));

/** Returns the state of an action as text. */
export function summaryOf(action: Action | undefined): string {
  if (!action) return 'nothing';
  const { graceUntil, approvalUntil, approvedBy, isPlanned, attempts, isOpen, ended } = action;
  return [
    graceUntil && `grace ${graceUntil}`,
    approvalUntil && `approval ${approvalUntil}`,
    approvedBy && `approved by ${approvedBy}`,
    isPlanned && 'planned',
    ...attempts.map(({ number, at, response }) => `#${number}@${at}${response ? ` ${response.kind}` : ''}`),
    isOpen && 'open',
    ended,
  ]
    .filter(Boolean)
    .join(', ');
}
