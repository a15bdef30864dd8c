import { describe, expect, test } from 'vitest';
import type { EventSeed } from '../../src/emulator/added.ts';
import type { Emulator } from '../../src/emulator/server.ts';
import { ask, emptyEmulator, NOON, type Parameters, pages, walk } from './emulated.ts';

const OURS = ['url', 'https://ours.example/'] as const;

/** Adds current events, one for each id. */
function addAll({ state }: Emulator, ids: readonly string[], seed: EventSeed = {}): void {
  for (const messageId of ids) state.addEvent({ messageId, url: OURS[1], ...seed });
}

const idsOf = (rows: readonly { messageId: string }[]) => rows.map(row => row.messageId);
const listed = async (emulated: Emulator) => idsOf(await walk(emulated, 'events', [OURS]));
/** Returns the concatenated ids of each page of the added events. */
async function split(emulated: Emulator, more: Parameters, between?: (page: number) => void): Promise<string[]> {
  const found = [];
  for await (const rows of pages(emulated, 'events', [OURS, ...more], between)) found.push(idsOf(rows).join(''));
  return found;
}
const many = (count: number) => Array.from({ length: count }, (_, index) => `m${index}`);

describe('delayed events', () => {
  const LATE = { logLateShare: 0.25, logLateMs: 10_000 } as const;

  test('the configured fraction of events is listed with uniformly distributed delays and then remains listed', async () => {
    const emulated = await emptyEmulator({ dialect: LATE });
    addAll(emulated, many(4000));
    let before = new Set<string>();
    for (let tenth = 0; tenth <= 10; tenth++) {
      const now = await listed(emulated);
      expect(new Set(now).size).toBe(now.length);
      expect(new Set(now).isSupersetOf(before)).toBe(true);
      expect(Math.abs(now.length - (3000 + 100 * tenth))).toBeLessThan(100);
      before = new Set(now);
      emulated.clock.advance(1000);
    }
    expect(before.size).toBe(4000);
  });

  test('with a share of 1, all events are delayed by between one millisecond and the maximum', async () => {
    const emulated = await emptyEmulator({ dialect: { logLateShare: 1, logLateMs: 3 } });
    addAll(emulated, many(300));
    const found = [];
    for (let ms = 0; ms <= 3; ms++) {
      found.push((await listed(emulated)).length);
      emulated.clock.advance(1);
    }
    expect([found[0], found[3]]).toEqual([0, 300]);
    for (const index of [1, 2]) expect(Math.abs((found[index] as number) - 100 * index)).toBeLessThan(40);
  });

  test('delayed events appear between events that are already listed, regardless of filters', async () => {
    const emulated = await emptyEmulator({ dialect: LATE });
    for (let index = 0; index < 40; index++)
      addAll(emulated, [`m${index}`], { time: NOON - 4000 + 100 * index, state: index % 2 ? 'active' : 'error' });
    const first = await listed(emulated);
    const newest = Math.max(...first.map(id => Number(id.slice(1))));
    emulated.clock.advance(10_000);
    const all = await listed(emulated);
    expect(all).toEqual(many(40).reverse());
    const appeared = all.filter(id => !first.includes(id));
    expect(appeared.some(id => Number(id.slice(1)) < newest)).toBe(true);
    const again = await emptyEmulator({ dialect: LATE });
    for (let index = 0; index < 40; index++)
      addAll(again, [`m${index}`], { time: NOON - 4000 + 100 * index, state: index % 2 ? 'active' : 'error' });
    const from = NOON - 3000;
    const rows = await walk(again, 'events', [OURS, ['state', 'ERROR'], ['fromDate', String(from)]]);
    const expected = first.filter(id => Number(id.slice(1)) >= 10 && Number(id.slice(1)) % 2 === 0);
    expect(idsOf(rows)).toEqual(expected);
    for (const id of appeared) expect(await walk(again, 'events', [['messageId', id]])).toEqual([]);
  });

  test('which events are delayed depends only on the seed, not on the number of requests', async () => {
    const found = async (seed: number, asks: number) => {
      const emulated = await emptyEmulator({ seed, dialect: LATE });
      addAll(emulated, many(200));
      emulated.clock.advance(2000);
      let ids: string[] = [];
      for (let ask = 0; ask < asks; ask++) ids = await listed(emulated);
      return ids;
    };
    expect(await found(1, 3)).toEqual(await found(1, 1));
    expect(await found(1, 1)).not.toEqual(await found(2, 1));
  });

  test('an event’s delay is added to the lag of the scenario', async () => {
    const stalled = await emptyEmulator({ scenario: 'log-lag', dialect: { logLateShare: 1, logLateMs: 1000 } });
    stalled.clock.advance(11 * 60_000);
    addAll(stalled, many(20));
    stalled.clock.advance(4 * 60_000 - 1);
    expect(await listed(stalled)).toEqual([]);
    // When the stall ends at minute 15, events that are at least 20 s old are listed. The added events are listed at most 1 s
    // later, because they are delayed.
    stalled.clock.advance(1 + 1000);
    expect((await listed(stalled)).length).toBe(20);
  });

  test('delayed events are included in state and counts immediately', async () => {
    const emulated = await emptyEmulator({ dialect: { logLateShare: 1, logLateMs: 60_000, logDuplicates: 1 } });
    addAll(emulated, many(30));
    expect(await listed(emulated)).toEqual([]);
    expect(idsOf(emulated.state.eventRows())).toEqual(many(30));
    expect(emulated.state.countEvents()).toMatchObject({ created: 30 });
  });
});

describe('duplicate events', () => {
  test('duplicate events are adjacent, make up the configured fraction and are the same in every walk', async () => {
    const emulated = await emptyEmulator({ dialect: { logDuplicates: 0.3 } });
    addAll(emulated, many(1000));
    const rows = await walk(emulated, 'events', [OURS]);
    const unique = rows.filter((row, index) => row.messageId !== rows[index - 1]?.messageId);
    expect(idsOf(unique)).toEqual(many(1000).reverse());
    expect(Math.abs(rows.length - 1300)).toBeLessThan(60);
    expect(await walk(emulated, 'events', [OURS])).toEqual(rows);
  });

  test('duplicate events may be split across two pages', async () => {
    const emulated = await emptyEmulator({ dialect: { logDuplicates: 1 } });
    addAll(emulated, ['a', 'b', 'c']);
    const by = (count: number) => split(emulated, [['count', String(count)]]);
    expect(await by(1)).toEqual(['c', 'c', 'b', 'b', 'a', 'a']);
    expect(await by(2)).toEqual(['cc', 'bb', 'aa']);
    expect(await by(3)).toEqual(['ccb', 'baa']);
    expect(await by(4)).toEqual(['ccbb', 'aa']);
    expect(await by(6)).toEqual(['ccbbaa']);
    emulated.dialect.cursorSeam = 'repeats';
    expect(await by(3)).toEqual(['ccb', 'bba', 'aa']);
    expect(await by(1)).toEqual(['c', 'cc', 'cb', 'bb', 'ba', 'aa']);
  });

  test('a cursor between two duplicate events remains valid after duplicates are disabled', async () => {
    const emulated = await emptyEmulator({ dialect: { logDuplicates: 1 } });
    addAll(emulated, ['a', 'b']);
    const parameters = [OURS, ['count', '3']] as const;
    const rows = await walk(emulated, 'events', parameters, () => {
      emulated.dialect.logDuplicates = 0;
    });
    expect(idsOf(rows)).toEqual(['b', 'b', 'a']);
  });
});

describe('pages that repeat the last row of the previous page', () => {
  test('the repeated row counts towards the requested count of a page, unless the requested count is 1', async () => {
    const emulated = await emptyEmulator({ dialect: { cursorSeam: 'repeats' } });
    addAll(emulated, ['a', 'b', 'c', 'd']);
    expect(await split(emulated, [['count', '2']])).toEqual(['dc', 'cb', 'ba']);
    expect(await split(emulated, [['count', '3']])).toEqual(['dcb', 'ba']);
    expect(await split(emulated, [['count', '4']])).toEqual(['dcba']);
    expect(await split(emulated, [['count', '1']])).toEqual(['d', 'dc', 'cb', 'ba']);
    expect(
      await split(emulated, [
        ['count', '2'],
        ['order', 'earliestFirst'],
      ]),
    ).toEqual(['ab', 'bc', 'cd']);
  });

  test('a page contains only new rows if the row to repeat has expired; other lists do not repeat rows', async () => {
    const emulated = await emptyEmulator({ dlqEntries: 6, dialect: { cursorSeam: 'repeats' } });
    for (const hours of [5, 4, 3, 2, 1]) addAll(emulated, [`${hours}`], { time: NOON - hours * 3_600_000 });
    const found = await split(
      emulated,
      [
        ['count', '2'],
        ['order', 'earliestFirst'],
      ],
      page => {
        if (page === 0) emulated.clock.advance(2.5 * 3_600_000);
      },
    );
    expect(found).toEqual(['54', '32', '21']);
    const dlqIds = (await walk(emulated, 'dlq', [['count', '2']])).map(row => row.dlqId);
    expect(new Set(dlqIds).size).toBe(dlqIds.length);
  });
});

test('with eventsMost=100, an event page contains at most 100 events, and a higher count is lowered or rejected', async () => {
  const emulated = await emptyEmulator({ dialect: { eventsMost: 100 } });
  addAll(emulated, many(250));
  const sizes = async (query: string) => {
    const found = [];
    for (const [path, list] of [
      ['events', 'events'],
      ['logs', 'logs'],
    ]) {
      const { status, body } = await ask(emulated, `/v2/${path}?${query}`);
      found.push(status === 200 ? body[list as string].length : status);
    }
    return found;
  };
  expect(await sizes('')).toEqual([100, 100]);
  expect(await sizes('count=1000')).toEqual([100, 100]);
  expect(await sizes('count=7')).toEqual([7, 7]);
  emulated.dialect.highCount = 'refused';
  expect(await sizes('count=101')).toEqual([400, 400]);
  expect((await ask(emulated, '/v2/events?count=101')).body.error).toBe('invalid count: it must be at most 100');
  expect(await sizes('count=100')).toEqual([100, 100]);
  expect(await listed(emulated)).toEqual(many(250).reverse());
});
