import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { Reader } from '../../../src/upstream/api.ts';

const given = {
  track: ({ queue }: DlqEntry) => queue === 'blind',
  maxGap: 1000,
  isSuspected: () => true,
};

/** What is shown after a walk at second 5 and one at second 6. */
async function samplesOf(rows: readonly Partial<DlqEntry>[], callbacks: typeof given | undefined) {
  const collector = createDlq(dlq.options.parse({}), { callbacks });
  const entries = rows.map((row, index) => ({ id: `${index}`, labels: [], ...row }) as unknown as DlqEntry);
  const api = {
    async *dlqPages() {
      yield { rows: entries, rejected: 0, isLast: true };
    },
  } as unknown as Reader;
  let memory = collector.restore(new Map());
  let facts = collector.recall?.(memory);
  for (const now of [5000, 6000]) {
    let walk: Parameters<typeof collector.observe>[0]['walk'];
    do {
      const signal = new AbortController().signal;
      const step = await collector.observe({ api, round: 'full', now, memory, walk, signal });
      const folded = step.fold(memory);
      memory = folded.memory;
      facts = folded.facts ?? facts;
      walk = step.more;
    } while (walk !== undefined);
  }
  const { suspected, oldestInProgress } = dlq.samples(facts as NonNullable<typeof facts>);
  return { suspected, oldestInProgress };
}

const only = (value: number) => [{ labels: {}, value }];

it.each([
  ['none is reported', [{}, { queue: 'blind' }], given, { suspected: [], oldestInProgress: [] }],
  ['none is in progress', [{ callbackState: 'fail' as const }], given, { suspected: only(0), oldestInProgress: [] }],
  [
    'some are in progress',
    [{ callbackState: 'in_progress' as const }, { callbackState: 'in_progress' as const }, {}],
    given,
    { suspected: only(2), oldestInProgress: only(5) },
  ],
  [
    'nobody says which are suspected',
    [{ callbackState: 'in_progress' as const }],
    undefined,
    { suspected: [], oldestInProgress: only(5) },
  ],
])('shows what seems stuck where %s', async (_, rows, callbacks, shown) => {
  expect(await samplesOf(rows, callbacks)).toEqual(shown);
});

it('asks whether a callback is suspected as of the walk that saw it', async () => {
  const asked: unknown[] = [];
  const isSuspected = (sighting: { snapshots: number }, at?: number) => asked.push([sighting.snapshots, at]) > 0;
  await samplesOf([{ callbackState: 'in_progress' }], { ...given, isSuspected } as typeof given);
  expect(asked).toEqual([
    [1, 5000],
    [2, 6000],
  ]);
});

it('starts all anew after a pause of half an hour, or of three walks, where no rule says otherwise', async () => {
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

it('walks the queue as often as the rules need it', () => {
  const options = dlq.options.parse({ every: '30s', rescanEvery: '10m' });
  const everyOf = (walkEvery: number | undefined) => {
    const { full, new: look } = createDlq(options, { callbacks: { ...given, walkEvery } }).rounds;
    return [full?.every, look?.every];
  };
  expect(everyOf(undefined)).toEqual([600_000, 30_000]);
  expect(everyOf(300_000)).toEqual([300_000, 30_000]);
  expect(everyOf(30_000)).toEqual([30_000, undefined]);
});
