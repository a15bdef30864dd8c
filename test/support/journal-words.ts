import type { JournalEntry } from '../../src/model/journal.ts';

/** Returns a short form of a journal line: `ended a confirmed read_canceled`. */
export function journalText(entry: JournalEntry, nameOf: (action: string) => string): string {
  const words = (...all: unknown[]) => all.filter(word => word !== undefined).join(' ');
  switch (entry.step) {
    case 'paused':
    case 'resumed':
      return words(entry.step, entry.reason);
    case 'breaker_opened':
      return words('opened', entry.breaker, `(${entry.reason})`);
    case 'order_refused':
      return words('refused', entry.kind, entry.reason);
    case 'breaker_reset':
      return words('reset', entry.breaker);
  }
  const name = nameOf(entry.action);
  switch (entry.step) {
    case 'marked':
    case 'awaiting_approval':
      return words(entry.step, name, entry.rule);
    case 'cleared':
      return words(entry.step, name, entry.reason);
    case 'approved':
      return words(entry.step, name, entry.by);
    case 'intent':
      return words(entry.step, name, entry.rule, entry.attempt);
    case 'answered':
      return words(entry.step, name, entry.attempt, entry.answer.kind);
    case 'observed':
      return words(entry.step, name, entry.outcome, entry.reason);
    case 'ended':
      return words(entry.step, name, entry.outcome, entry.reason, entry.unproven && 'unproven');
  }
}
