import { expect, it } from 'vitest';
import type { LastKnown } from '../../src/app/account-rows.ts';
import { openGap, readGaps } from '../../src/app/gaps.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const DAY = 86_400_000;

const row = (key: string, value: string) => ({ key: `events/${key}`, value });

/** A store with what an agent knew. */
async function setUp(store: Store = createMemoryStore()) {
  const clock = createManualClock();
  const log = createTestLog();
  await store.commit('a', [
    row('checkpoint', '{"readTo":1}'),
    row('log', '{}'),
    row('open/1', '[]'),
    row('minute/7', 'x'),
  ]);
  const open = (before: LastKnown = { shownAt: clock.now() - 10 * MINUTE }, shown?: unknown) =>
    openGap('a', { store, before, shown, clock, log });
  return { clock, log, store, open, gaps: () => readGaps(store, 'a', clock.now()) };
}

it('keeps what was known when a gap began, and what was shown first after it', async () => {
  const { clock, store, open, gaps } = await setUp();
  const begun = clock.now() - 10 * MINUTE;
  const catchUp = await open();
  expect(catchUp?.round).toBe('tail');
  const rows = new Map([
    ['checkpoint', '{"readTo":1}'],
    ['log', '{}'],
    ['open/1', '[]'],
  ]);
  // An agent shows what it knows for a while after it was saved last. What only the sweep needs is not kept.
  expect(await gaps()).toEqual([{ from: begun + 30 * SECOND, rows, end: undefined }]);
  await store.commit('a', [row('checkpoint', '{"readTo":2}'), row('destination/none/', '{}')]);
  await catchUp?.end();
  const shown = new Map([
    ['checkpoint', '{"readTo":2}'],
    ['log', '{}'],
    ['destination/none/', '{}'],
  ]);
  expect(await gaps()).toEqual([{ from: begun + 30 * SECOND, rows, end: { shownAt: clock.now(), rows: shown } }]);
});

it.each<[why: string, before: (now: number) => LastKnown, shown?: unknown]>([
  ['a restart within two minutes', now => ({ shownAt: now - 2 * MINUTE })],
  ['an account that was never read', () => ({})],
  ['a reload, in which the account went on being shown', now => ({ shownAt: now - DAY }), new Map()],
])('knows no gap after %s', async (_why, before, shown) => {
  const { clock, open, gaps } = await setUp();
  expect(await open(before(clock.now()), shown)).toBeUndefined();
  expect(await gaps()).toEqual([]);
});

it('knows from an older version when its data was last complete', async () => {
  const { clock, open, gaps } = await setUp();
  const completeAt = clock.now() - 3 * MINUTE;
  await open({ freshness: { events: { tail: { completeAt: completeAt - DAY } }, dlq: { new: { completeAt } } } });
  expect((await gaps()).map(({ from }) => from)).toEqual([completeAt + 30 * SECOND]);
});

it('is in the same gap until it has caught up, however often it is killed', async () => {
  const { clock, store, open, gaps } = await setUp();
  await open();
  await store.commit('a', [row('checkpoint', '{"readTo":2}')]);
  await clock.advance(SECOND);
  // It saved when it was opened, and has shown no counter.
  const again = await open({ shownAt: clock.now() - SECOND });
  expect(again).toBeDefined();
  await again?.end();
  const all = await gaps();
  expect(all.map(({ rows }) => rows.get('checkpoint'))).toEqual(['{"readTo":1}']);
  expect(all[0]?.end?.rows.get('checkpoint')).toBe('{"readTo":2}');
  expect(await open({ shownAt: clock.now() })).toBeUndefined();
});

it('keeps the last five gaps, and none for longer than a month', async () => {
  const { clock, store, open, gaps } = await setUp();
  const begun: number[] = [];
  for (let gap = 0; gap < 7; gap += 1) {
    begun.push(clock.now() - 10 * MINUTE + 30 * SECOND);
    await (await open())?.end();
    await clock.advance(DAY);
  }
  expect((await gaps()).map(({ from }) => from)).toEqual(begun.slice(-5));
  await clock.advance(29 * DAY);
  expect(await gaps()).toEqual([]);
  await open();
  expect(
    [...(await store.sizes('a', 'event-gap/')).keys()].every(
      key => key.split('/')[1] === `${clock.now() - 10 * MINUTE + 30 * SECOND}`,
    ),
  ).toBe(true);
});

it('says of a memory that is too large to keep that there was a gap, and keeps nothing of it', async () => {
  const { store, open, gaps } = await setUp();
  const large = 'x'.repeat(8 * 1024 * 1024);
  await store.commit(
    'a',
    [1, 2, 3, 4].map(number => row(`chunk/${number}`, large)),
  );
  await open();
  expect(await gaps()).toMatchObject([{ tooLarge: true, rows: new Map() }]);
});

it('shows counters at once where the store can’t note the gap', async () => {
  const inner = createMemoryStore();
  let isFull = false;
  const store: Store = {
    ...inner,
    commit: (...args) => (isFull ? Promise.reject(new Error('disk full')) : inner.commit(...args)),
  };
  const { log, open, gaps } = await setUp(store);
  isFull = true;
  expect(await open()).toBeUndefined();
  expect(log.lines.map(({ level, message }) => [level, message])).toEqual([
    ['warn', 'a gap in the event log could not be noted: backfill can’t fill it'],
  ]);
  isFull = false;
  expect(await gaps()).toEqual([]);
});
