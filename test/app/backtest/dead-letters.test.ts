import { expect, it } from 'vitest';
import { readDeadLetters } from '../../../src/app/backtest/dead-letters.ts';
import { backtestText } from '../../../src/cli/backtest-text.ts';
import type { DlqEntry } from '../../../src/model/message.ts';

const entryOf = (id: string): DlqEntry => ({
  id,
  dlqId: id,
  messageId: undefined,
  createdAt: 1,
  enteredAt: 2,
  url: undefined,
  method: undefined,
  state: undefined,
  topic: undefined,
  queue: undefined,
  schedule: undefined,
  flowControlKey: undefined,
  api: undefined,
  labels: [],
  responseStatus: undefined,
  workflowRunId: undefined,
  workflowUrl: undefined,
  callbackState: undefined,
  maxRetries: undefined,
});

function readerOf(count: number) {
  async function* dlqPages() {
    yield { rows: Array.from({ length: count }, (_, index) => entryOf(String(index))), rejected: 0, isLast: true };
  }
  return { dlqPages };
}

it('keeps 100,000 entries for auto-cancel, and says how many more it was to keep', async () => {
  const keep = ({ id }: DlqEntry) => id !== '5';
  const { signal } = new AbortController();
  const { kept, leftOut, all } = await readDeadLetters(readerOf(100_003), [], keep, signal);
  expect([kept.length, leftOut, all.entered.length]).toEqual([100_000, 2, 100_003]);
  expect(await readDeadLetters(readerOf(7), [], keep, signal)).toMatchObject({ kept: { length: 6 }, leftOut: 0 });
});

it('says that auto-cancel was judged by a part of the queue, and says nothing where it was the whole', () => {
  const cancels = {
    verdict: 'would_cancel',
    because: 'they leave no trace',
    planned: [],
    skipped: [],
    open: 99,
  } as const;
  const textOf = (leftOut: number) =>
    backtestText({
      account: 'production',
      failure: undefined,
      requests: 5,
      result: {
        account: 'production',
        from: 0,
        to: 60_000,
        judgedFrom: 0,
        events: 1,
        rejected: 0,
        deadLetters: 100_000 + leftOut,
        budgets: [],
        burns: [],
        alerts: [],
        autoCancel: [{ rule: 'old', ...cancels }],
        autoCancelEntries: { judged: 100_000, leftOut },
      },
    });
  expect(textOf(2345).slice(textOf(2345).indexOf('auto-cancel rule'))).toMatchInlineSnapshot(`
    "auto-cancel rule  would cancel  first  may be stuck now
    old                          0                       99
      these numbers are the least: of the dead letters that the rules may be
        about, the first 100,000 were judged, and 2,345 more were not
      old: at least: they leave no trace"
  `);
  expect(textOf(0)).not.toContain('least: of');
});
