import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Collector } from '../../../src/collectors/collector.ts';
import type { DoubleStart } from '../../../src/collectors/events/schedules.ts';
import { collectOptions, createCollectors, type ScheduleListFacts } from '../../../src/collectors/index.ts';
import { type ScheduleHistory, withDoubles } from '../../../src/collectors/schedules/schedules.ts';
import type { ServiceSchedule } from '../../../src/model/service.ts';
import type { Reader } from '../../../src/upstream/api.ts';

const MINUTE = 60_000;
const START = Date.UTC(2026, 2, 14, 12);

type Row = Partial<ServiceSchedule>;

const rowOf = (scheduleId: string, row: Row = {}): ServiceSchedule => ({
  scheduleId,
  cron: '*/10 * * * *',
  paused: false,
  labels: [],
  ...row,
});

/** Reads lists at given minutes after `START`. Each read is by a new process, which restores the committed rows. */
function setUp(configured: object[] = [], options: object = {}) {
  const off = { flowControl: { enabled: false }, dlq: { enabled: false }, events: { enabled: false } };
  const settings = collectOptions.parse({ ...off, schedules: options });
  const stored = new Map<string, string>();
  const doubles = new Map<string, DoubleStart>();
  const open = () =>
    createCollectors(settings, {
      schedules: configured as never,
      doubleStarts: () => doubles,
    })[0] as Collector<ScheduleListFacts>;
  return {
    stored,
    doubles,
    async read(minutes: number, rows: readonly ServiceSchedule[], rejected = 0): Promise<ScheduleListFacts> {
      const collector = open();
      const api = {
        async schedules(_: AbortSignal, take: (row: ServiceSchedule) => void) {
          for (const row of rows) take(row);
          return rejected;
        },
      } as unknown as Reader;
      const memory = collector.restore(stored);
      const step = { api, round: 'schedules', now: START + minutes * MINUTE, memory, walk: undefined };
      const { fold } = await collector.observe({ ...step, signal: new AbortController().signal });
      const { facts, changes } = fold(memory);
      for (const { key, value } of changes) {
        if (value === null) stored.delete(key);
        else stored.set(key, value);
      }
      return facts as ScheduleListFacts;
    },
  };
}

const at = (minutes: number) => START + minutes * MINUTE;

/** A schedule that starts every ten minutes, as the service lists it at a minute. `stopped`: minute after which it never starts. */
const every10 = (minutes: number, stopped = Number.POSITIVE_INFINITY, row: Row = {}) =>
  rowOf('a', {
    lastRunAt: at(Math.floor(Math.min(minutes, stopped) / 10) * 10) + 41,
    nextRunAt: at(Math.floor(minutes / 10) * 10 + 10),
    ...row,
  });

const historyOf = (facts: ScheduleListFacts, name = 'a') => facts.listed.find(each => each.name === name)?.history;

describe('missed starts', () => {
  it('counts each expected start after the last actual start as missed once, even across restarts', async () => {
    const { read } = setUp();
    await read(1, [every10(1)]);
    await read(6, [every10(6)]);
    expect(historyOf(await read(11.5, [every10(11.5, 5)]))?.missed).toBe(0);
    expect(historyOf(await read(12, [every10(12, 5)]))).toMatchObject({ missed: 1, missedAt: at(10) });
    expect(historyOf(await read(17, [every10(17, 5)]))?.missed).toBe(1);
    // The agent was down for an hour.
    expect(historyOf(await read(77, [every10(77, 5)]))).toMatchObject({ missed: 7, missedAt: at(70) });
    expect(historyOf(await read(81, [every10(81)]))).toMatchObject({ missed: 7, lastRunAt: at(80) + 41 });
  });

  it('counts no start between two reads as missed if the second read shows that the latest start was on time', async () => {
    const { read } = setUp();
    await read(1, [every10(1)]);
    expect(historyOf(await read(300, [every10(300)]))?.missed).toBe(0);
  });

  it('counts no start as missed during a pause, or in the minute after a resumption or a change', async () => {
    const { read } = setUp();
    await read(1, [every10(1)]);
    await read(6, [every10(6, 5, { paused: true })]);
    expect(historyOf(await read(66, [every10(66, 5, { paused: true })]))?.missed).toBe(0);
    // Resumed at some time before 11 s to the next start.
    await read(69.5, [every10(69.5, 5)]);
    expect(historyOf(await read(75, [every10(75, 5)]))?.missed).toBe(0);
    expect(historyOf(await read(83, [every10(83, 5)]))?.missed).toBe(1);
    const changed = { cron: '*/5 * * * *', nextRunAt: at(85) };
    await read(84.5, [every10(84.5, 5, changed)]);
    expect(historyOf(await read(88, [every10(88, 5, { ...changed, nextRunAt: at(90) })]))?.missed).toBe(1);
  });

  it('expects only the announced next start if the cron expression is unreadable', async () => {
    const { read } = setUp();
    const row = { cron: '@sometimes' };
    await read(1, [every10(1, 5, row)]);
    await read(6, [every10(6, 5, row)]);
    expect(historyOf(await read(55, [every10(55, 5, row)]))?.missed).toBe(1);
    expect(historyOf(await read(63, [every10(63, 5, row)]))?.missed).toBe(2);
  });

  it('evaluates the expression in its time zone', async () => {
    const { read } = setUp();
    const row = rowOf('a', { cron: '0 9 * * *', tz: 'America/New_York', lastRunAt: at(-23 * 60) });
    await read(1, [row]);
    // 09:00 in New York is 13:00 UTC after the switch to daylight saving time on 8 March.
    expect(historyOf(await read(61, [row]))?.missed).toBe(0);
    expect(historyOf(await read(63, [row]))).toMatchObject({ missed: 1, missedAt: at(60) });
  });

  it('counts no missed starts if it is unknown whether the schedule is paused, or when it last started', async () => {
    const { read } = setUp();
    const rows = (minutes: number) => [
      every10(minutes, 5, { paused: undefined }),
      rowOf('b', { ...(minutes < 5 && { lastRunAt: at(0) }), nextRunAt: at(10) }),
    ];
    await read(1, rows(1));
    const facts = await read(60, rows(60));
    expect([historyOf(facts)?.missed, historyOf(facts, 'b')?.missed]).toEqual([0, 0]);
  });

  it('counts exactly the provably missed starts, regardless of when the lists are read', async () => {
    const starts = fc.array(fc.boolean(), { minLength: 5, maxLength: 30 });
    const reads = fc.array(fc.integer({ min: 1, max: 1800 }), { minLength: 1, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(starts, reads, async (started, gaps) => {
        const { read } = setUp();
        // The start at 0 precedes the first read.
        const startTimes = [0, ...started.flatMap((isStarted, index) => (isStarted ? (index + 1) * 10 : []))];
        let [seconds, provable, evaluatedTo] = [120, 0, 3];
        let history = historyOf(await read(2, [every10(2, 0)]));
        for (const gap of gaps) {
          // In whole seconds, because sums of fractions of minutes are inexact.
          seconds += gap;
          const minutes = seconds / 60;
          const last = startTimes.findLast(start => start <= minutes) ?? 0;
          history = historyOf(await read(minutes, [every10(minutes, last)]));
          // A start is provably missing if a read shows that none has followed the previous one.
          for (let due = 10; due + 2 <= minutes; due += 10) {
            if (due <= last || due <= evaluatedTo) continue;
            provable += 1;
            evaluatedTo = due;
          }
        }
        expect(history?.missed).toBe(provable);
      }),
      { numRuns: 200 },
    );
  });
});

describe('unexpected starts', () => {
  it('counts a second start for the same expected time as unexpected, once', async () => {
    const { read } = setUp();
    await read(11, [every10(11)]);
    const twice = every10(13, undefined, { lastRunAt: at(12) });
    expect(historyOf(await read(13, [twice]))).toMatchObject({ unexpected: 1, unexpectedAt: at(12), missed: 0 });
    expect(historyOf(await read(16, [twice]))?.unexpected).toBe(1);
    expect(historyOf(await read(21, [every10(21)]))?.unexpected).toBe(1);
  });

  it('adds up the repeated starts that successive processes find in the event log', async () => {
    const { read, doubles } = setUp();
    await read(1, [rowOf('a')]);
    doubles.set('a', { count: 2, at: at(4) });
    const history = historyOf(await read(6, [rowOf('a')])) as ScheduleHistory;
    expect(history).toMatchObject({ unexpected: 2, unexpectedAt: at(4) });
    expect(withDoubles(history, { count: 2, at: at(4) })).toBe(history);
    expect(withDoubles(history, { count: 5, at: at(7) })).toMatchObject({ unexpected: 5, unexpectedAt: at(7) });
    doubles.set('a', { count: 1, at: at(8) });
    expect(historyOf(await read(11, [rowOf('a')]))).toMatchObject({ unexpected: 3, unexpectedAt: at(8) });
    doubles.clear();
    expect(historyOf(await read(16, [rowOf('a')]))?.unexpected).toBe(3);
  });

  it('counts no unexpected start if one start creates several messages', async () => {
    const { read } = setUp();
    const states = { in_progress: 5, success: 2, fail: 1, unknown: 0 };
    await read(11, [every10(11, undefined, { lastRunStates: states })]);
    expect(historyOf(await read(21, [every10(21, undefined, { lastRunStates: states })]))?.unexpected).toBe(0);
  });

  it('counts a start during a pause as unexpected, except in the first minute of the pause', async () => {
    const { read } = setUp();
    await read(1, [every10(1)]);
    const paused = (minutes: number, lastRunAt: number) => [every10(minutes, 5, { paused: true, lastRunAt })];
    await read(9.5, paused(9.5, at(0)));
    expect(historyOf(await read(14, paused(14, at(10))))?.unexpected).toBe(0);
    expect(historyOf(await read(24, paused(24, at(20))))?.unexpected).toBe(1);
  });

  it('counts no start as unexpected if it follows a change of the expression or makes up for a missed start', async () => {
    const { read } = setUp();
    await read(1, [every10(1)]);
    await read(6, [every10(6, undefined, { cron: '* * * * *', lastRunAt: at(5) })]);
    await read(7, [every10(7, undefined, { cron: '* * * * *', lastRunAt: at(6) })]);
    const late = (minutes: number, lastRunAt: number) => [every10(minutes, 5, { scheduleId: 'b', lastRunAt })];
    await read(11, late(11, at(0)));
    await read(23, late(23, at(0)));
    await read(24, late(24, at(23)));
    const facts = await read(25, late(25, at(24)));
    expect(historyOf(facts, 'b')).toMatchObject({ missed: 1, unexpected: 0 });
  });
});

describe('pauses', () => {
  it('reports when the agent first read the schedule as paused, and whether it had read the schedule as active before', async () => {
    const { read } = setUp();
    const rows = (paused: boolean) => [rowOf('a', { paused }), rowOf('old', { paused: true })];
    await read(1, rows(false));
    await read(6, rows(true));
    const facts = await read(11, rows(true));
    expect(historyOf(facts)).toMatchObject({ pausedSince: at(6), sawPause: true });
    expect(historyOf(facts, 'old')).toMatchObject({ pausedSince: at(1), sawPause: false });
    expect(facts.states).toEqual({ active: 0, paused: 2 });
    expect(historyOf(await read(16, rows(false)))?.pausedSince).toBeUndefined();
  });
});

describe('removed schedules', () => {
  const names = ({ gone }: ScheduleListFacts) => gone.map(({ name }) => name);

  it('removed schedules are reported for a day, from the first complete list without them', async () => {
    const { read, stored } = setUp();
    await read(1, [rowOf('a'), rowOf('b')]);
    const partial = await read(6, [rowOf('b')], 1);
    expect(names(partial)).toEqual([]);
    const complete = await read(11, [rowOf('b')]);
    expect([names(complete), complete.listed.map(({ name }) => name)]).toEqual([['a'], ['b']]);
    expect(complete.gone[0]?.history.goneSince).toBe(at(11));
    expect(names(await read(11 + 1439, [rowOf('b')]))).toEqual(['a']);
    expect(names(await read(11 + 1440, [rowOf('b')]))).toEqual([]);
    expect(stored.size).toBe(1);
  });

  it('a removed schedule that returns keeps its counters, and starts in between do not count as missed', async () => {
    const { read } = setUp();
    await read(1, [every10(1)]);
    await read(15, [every10(15, 5)]);
    await read(25, []);
    const facts = await read(65, [every10(65, 5)]);
    expect([names(facts), historyOf(facts)?.missed]).toEqual([[], 1]);
  });

  it('schedules are not reported as removed if the service may have cut off the list', async () => {
    const { read } = setUp();
    const rows = Array.from({ length: 101 }, (_, index) => rowOf(`s${index}`));
    await read(1, rows);
    expect(names(await read(6, rows.slice(1)))).toEqual([]);
    expect(names(await read(11, rows.slice(2)))).toEqual(['s0', 's1']);
  });
});

describe('names', () => {
  const configured = { name: 'report', match: { scheduleId: 'scd_1' }, accounts: null };

  it('shows a listed schedule under the name of the configured schedule that matches it', async () => {
    const { read } = setUp([configured]);
    const { listed } = await read(1, [rowOf('scd_1'), rowOf('report'), rowOf('other')]);
    expect(listed.map(({ name, isConfigured, row }) => [name, isConfigured, row.scheduleId])).toEqual([
      ['report', true, 'scd_1'],
      ['other', false, 'other'],
    ]);
  });

  it('keeps known schedules if there are more than maxSeries', async () => {
    const { read } = setUp([], { maxSeries: 2 });
    await read(1, [rowOf('b'), rowOf('c')]);
    const facts = await read(6, [rowOf('a'), rowOf('b'), rowOf('c'), rowOf('d')]);
    expect(facts.listed.map(({ name }) => name)).toEqual(['b', 'c']);
    expect([facts.beyondCap, facts.gone, facts.states]).toEqual([2, [], { active: 4, paused: 0 }]);
  });
});
