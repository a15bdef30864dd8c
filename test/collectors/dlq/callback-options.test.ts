import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqEntry } from '../../../src/model/message.ts';

it('by default, an episode restarts after a gap of more than half an hour or three walk intervals, whichever is longer', async () => {
  const row = { id: 'x', callbackState: 'in_progress', labels: [] } as unknown as DlqEntry;
  const snapshots = (rescanEvery: string, gap: number) => {
    const { callbacks } = createDlq(dlq.options.parse({ rescanEvery })).restore(new Map());
    callbacks.observe([row], 0);
    return callbacks.observe([row], gap).sightings[0]?.snapshots;
  };
  const minute = 60_000;
  expect([snapshots('1m', 30 * minute), snapshots('1m', 30 * minute + 1)]).toEqual([2, 1]);
  expect([snapshots('20m', 60 * minute), snapshots('20m', 60 * minute + 1)]).toEqual([2, 1]);
});

it('the collector walks the queue at the interval that rules require, and omits reads for new entries if walks are as frequent', () => {
  const options = dlq.options.parse({ every: '30s', rescanEvery: '10m' });
  const everyOf = (walkEvery: number | undefined) => {
    const { full, new: look } = createDlq(options, {
      callbacks: { unreported: [], maxGap: 1000, walkEvery },
    }).rounds;
    return [full?.every, look?.every];
  };
  expect(everyOf(undefined)).toEqual([600_000, 30_000]);
  expect(everyOf(300_000)).toEqual([300_000, 30_000]);
  expect(everyOf(30_000)).toEqual([30_000, undefined]);
});
