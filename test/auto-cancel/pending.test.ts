import { expect, it } from 'vitest';
import { openJournal, readJournalState } from '../../src/auto-cancel/journal.ts';
import { pendingActions } from '../../src/auto-cancel/waits.ts';
import type { JournalEntry } from '../../src/model/journal.ts';
import { createMemoryStore } from '../../src/store/memory.ts';

const NOON = Date.UTC(2027, 0, 1, 12);
const HOUR = 3_600_000;
const target = (id: string) => ({
  account: 'production',
  id,
  dlqId: id,
  messageId: `m-${id}`,
  workflowRunId: undefined,
  url: 'https://a.example/step',
  workflowUrl: id === 'old' ? undefined : 'https://a.example/flow',
  responseStatus: 500,
  episode: 'e',
});

function requested(id: string, at: number): JournalEntry {
  const about = { action: `action-${id}`, rule: 'ask', target: target(id), evidence: [] };
  return { at, step: 'awaiting_approval', mode: 'approve', policy: '', ...about, until: at + 24 * HOUR };
}

it('pending actions are read from a stored journal and sorted by expiry time', async () => {
  const store = createMemoryStore();
  const journal = await openJournal(store, 'production');
  await journal.append([
    requested('new', NOON),
    requested('approved', NOON),
    requested('cleared', NOON),
    requested('expired', NOON - 24 * HOUR),
    requested('old', NOON - HOUR),
    { at: NOON, step: 'approved', action: 'action-approved', by: 'ann' },
    { at: NOON, step: 'cleared', action: 'action-cleared', reason: 'idle_for' },
  ]);
  const pending = pendingActions(await readJournalState(store, 'production'), NOON);
  expect(pending).toEqual([
    {
      account: 'production',
      action: 'action-old',
      rule: 'ask',
      dlqId: 'old',
      messageId: 'm-old',
      url: 'https://a.example/step',
      requestedAt: NOON - HOUR,
      expiresAt: NOON + 23 * HOUR,
    },
    {
      account: 'production',
      action: 'action-new',
      rule: 'ask',
      dlqId: 'new',
      messageId: 'm-new',
      url: 'https://a.example/flow',
      requestedAt: NOON,
      expiresAt: NOON + 24 * HOUR,
    },
  ]);
  expect(pendingActions(await readJournalState(store, 'other'), NOON)).toEqual([]);
});
