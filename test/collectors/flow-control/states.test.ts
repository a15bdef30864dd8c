import { describe, expect, it } from 'vitest';
import { createFlowControl, flowControl } from '../../../src/collectors/flow-control/flow-control.ts';
import type { FlowControlEntry } from '../../../src/model/message.ts';
import type { GlobalParallelism } from '../../../src/model/service.ts';
import type { Reader } from '../../../src/upstream/api.ts';
import { UpstreamError } from '../../../src/upstream/errors.ts';
import { drainCourse } from './drain.ts';

type Row = Omit<FlowControlEntry, 'key'>;

const SIGNAL = new AbortController().signal;

/** Creates a collector of a fake service. Tests set the service's keys and clock. Returns states as `state since seconds`. */
function setUp(options: object = {}) {
  const service = {
    now: 0,
    keys: {} as Record<string, Row>,
    rejected: 0,
    account: { limit: 9, inUse: 0 } as GlobalParallelism | Error,
    /** Times of the reads of the account's parallelism (s). */
    asked: [] as number[],
  };
  const entry = (key: string) => (service.keys[key] ? { key, ...service.keys[key] } : undefined);
  const api = {
    async flowControl(_signal: AbortSignal, add: (entry: FlowControlEntry | undefined) => void) {
      for (const key of Object.keys(service.keys)) add(entry(key));
      return service.rejected;
    },
    async flowControlKey(key: string) {
      const found = entry(key);
      if (found) return found;
      throw new UpstreamError('not_found', 'no such key', { status: 404 });
    },
    async globalParallelism() {
      service.asked.push(service.now / 1000);
      if (service.account instanceof Error) throw service.account;
      return service.account;
    },
  } as unknown as Reader;
  const collector = createFlowControl(flowControl.options.parse(options), { now: () => service.now });
  let memory = collector.restore(new Map());
  let shownAccount: GlobalParallelism | undefined;
  async function observe(round: 'list' | 'watch') {
    const { fold } = await collector.observe({ api, round, now: service.now, memory, walk: undefined, signal: SIGNAL });
    return () => {
      const folded = fold(memory);
      memory = folded.memory;
      const shown = folded.facts?.shown ?? [];
      shownAccount = folded.facts?.parallelism;
      return Object.fromEntries(
        shown.map(({ key, state, since }) => [key, state === undefined ? '' : `${state} since ${(since ?? 0) / 1000}`]),
      );
    };
  }
  return {
    observe,
    async read(round: 'list' | 'watch', seconds: number, keys: Record<string, Row>) {
      Object.assign(service, { now: seconds * 1000, keys });
      return (await observe(round))();
    },
    service,
    shownAccount: () => shownAccount,
  };
}

const waiting = (waitlistSize: number, more: Partial<Row> = {}) => ({ waitlistSize, ...more });

describe('states of flow-control keys', () => {
  it('a state starts with the first of its consecutive reads, and only `moving` and `waiting` need two reads', async () => {
    const { read } = setUp();
    const full = { parallelismInUse: 2, parallelismLimit: 2 };
    const first = { a: waiting(3), b: waiting(3, full), c: waiting(3, { paused: true }), d: waiting(0) };
    expect(await read('list', 10, first)).toEqual({
      a: '',
      b: 'parallelism_full since 10',
      c: 'paused since 10',
      d: 'idle since 10',
    });
    const next = { a: waiting(3), b: waiting(2, full), c: waiting(4, { paused: true }), d: waiting(1) };
    expect(await read('list', 25, next)).toEqual({
      a: 'waiting since 25',
      b: 'parallelism_full since 10',
      c: 'paused since 10',
      d: 'moving since 25',
    });
    expect(await read('list', 40, { a: waiting(3), b: waiting(2) })).toEqual({
      a: 'waiting since 25',
      b: 'waiting since 40',
    });
  });

  it('a key that is listed again is not compared with reads before its absence', async () => {
    const { read } = setUp();
    await read('list', 10, { a: waiting(3) });
    await read('list', 25, {});
    expect(await read('list', 40, { a: waiting(3) })).toEqual({ a: '' });
  });

  it('a read from either round is compared with the previous read from either round', async () => {
    const { read } = setUp({ watch: ['a'] });
    await read('list', 10, { a: waiting(3), b: waiting(3) });
    expect(await read('watch', 15, { a: waiting(2), b: waiting(2) })).toEqual({ a: 'moving since 15', b: '' });
    expect(await read('list', 25, { a: waiting(2), b: waiting(2) })).toEqual({
      a: 'waiting since 25',
      b: 'moving since 25',
    });
    expect(await read('watch', 30, { a: waiting(2) })).toEqual({ a: 'waiting since 25', b: 'moving since 25' });
  });

  it('overlapping reads are compared in the order of their responses', async () => {
    const { service, observe, read } = setUp({ watch: ['a'] });
    await read('list', 10, { a: waiting(3) });
    Object.assign(service, { now: 20_000, keys: { a: waiting(4) } });
    const watch = await observe('watch');
    Object.assign(service, { now: 22_000, keys: { a: waiting(4) } });
    const list = await observe('list');
    expect([watch(), list()]).toEqual([{ a: 'moving since 20' }, { a: 'waiting since 22' }]);
  });

  it('a watched key that the service omits is idle', async () => {
    const { read } = setUp({ watch: ['a'] });
    await read('watch', 10, { a: waiting(3) });
    expect(await read('list', 25, {})).toEqual({ a: 'idle since 25' });
    expect(await read('watch', 30, {})).toEqual({ a: 'idle since 25' });
  });
});

describe('parallelism of the account', () => {
  const FULL = { limit: 9, inUse: 9 };

  it('the parallelism of the account is read at most once a minute, in either round, and only while messages wait', async () => {
    const { service, read, shownAccount } = setUp({ watch: ['a'] });
    service.account = FULL;
    await read('list', 0, { a: waiting(0), b: {} });
    expect([service.asked, shownAccount()]).toEqual([[], undefined]);
    for (let seconds = 15; seconds <= 180; seconds += 15) {
      const shown = await read(seconds % 45 === 0 ? 'watch' : 'list', seconds, { a: waiting(seconds), b: waiting(1) });
      expect(shown).toMatchObject({ a: 'account_full since 15' });
    }
    expect(service.asked).toEqual([15, 75, 135]);
    expect(shownAccount()).toEqual(FULL);
    expect(await read('list', 300, { a: waiting(0) })).toEqual({ a: 'idle since 300' });
    expect([service.asked.length, shownAccount()]).toEqual([3, undefined]);
  });

  it('a failed read of the account’s parallelism does not fail the round, and the old value expires after two minutes', async () => {
    const { service, read, shownAccount } = setUp();
    service.account = FULL;
    expect(await read('list', 0, { a: waiting(3) })).toEqual({ a: 'account_full since 0' });
    service.account = new UpstreamError('server', 'status 500', { status: 500 });
    expect(await read('list', 60, { a: waiting(3) })).toEqual({ a: 'account_full since 0' });
    expect(await read('list', 120, { a: waiting(3) })).toEqual({ a: 'waiting since 120' });
    expect(shownAccount()).toEqual({});
    service.account = FULL;
    expect(await read('list', 180, { a: waiting(3) })).toEqual({ a: 'account_full since 180' });
  });

  it('the parallelism of the account is requested once an hour if the service lacks the path', async () => {
    const { service, read, shownAccount } = setUp();
    service.account = new UpstreamError('not_found', 'status 404', { status: 404 });
    for (let minute = 0; minute <= 130; minute += 5) await read('list', 60 * minute, { a: waiting(3) });
    expect(service.asked).toEqual([0, 3600, 7200]);
    expect(shownAccount()).toBeUndefined();
  });

  it('a 404 for a token of another region is a failure, and the request is repeated every minute', async () => {
    const { service, read, shownAccount } = setUp();
    const serviceError = 'user (99a4c327-31f0-490f-a594-043ade84085a) not found in this region (eu-central-1)';
    service.account = new UpstreamError('not_found', 'status 404', { status: 404, serviceError });
    for (const seconds of [0, 60, 120]) await read('list', seconds, { a: waiting(3) });
    expect(service.asked).toEqual([0, 60, 120]);
    expect(shownAccount()).toEqual({});
  });

  it('the parallelism of the account is read again if the clock is set back', async () => {
    const { service, read } = setUp();
    for (const seconds of [7200, 0, 15]) await read('list', seconds, { a: waiting(3) });
    expect(service.asked).toEqual([7200, 0]);
  });
});

describe('time to drain', () => {
  /** Reads a key every 15 s with these sizes of its waitlist. Returns the last estimate (s). */
  async function estimate(sizes: readonly number[], last: Partial<Row> = {}) {
    const collector = createFlowControl(flowControl.options.parse({}));
    let memory = collector.restore(new Map());
    let drainsIn: number | undefined;
    for (const [index, waitlistSize] of sizes.entries()) {
      const entry = { key: 'a', waitlistSize, ...(index === sizes.length - 1 && last) };
      const api = {
        flowControl: async (_signal: AbortSignal, add: (entry: FlowControlEntry) => void) => {
          add(entry);
          return 0;
        },
      } as unknown as Reader;
      const context = { api, round: 'list', now: index * 15_000, memory, walk: undefined, signal: SIGNAL };
      const folded = (await collector.observe(context)).fold(memory);
      memory = folded.memory;
      drainsIn = folded.facts?.shown[0]?.drainsIn;
    }
    return drainsIn === undefined ? undefined : drainsIn / 1000;
  }

  it('the time to drain is the size of a steadily shrinking waitlist divided by its pace since the maximum', async () => {
    expect(await estimate([70, 100, 95, 90, 85, 80, 75, 70])).toBeCloseTo((70 / 5) * 15);
    // Only the last four minutes count.
    const steady = Array.from({ length: 30 }, (_, index) => 1000 - 10 * index);
    expect(await estimate([9000, 8000, 7000, ...steady])).toBeCloseTo((710 / 10) * 15);
  });

  it.each<[string, number[], Partial<Row>?]>([
    ['grows', [10, 20, 30, 40, 50, 60, 70, 80]],
    ['shrinks unsteadily', [100, 99, 60, 59, 58, 20, 19, 18]],
    ['has shrunk for less than 90 seconds', [100, 95, 90, 85, 80, 75]],
    ['has shrunk by fewer than three messages', [9, 9, 8, 8, 8, 8, 7, 7]],
    ['is empty', [70, 60, 50, 40, 30, 20, 10, 0]],
    ['belongs to a paused key', [100, 95, 90, 85, 80, 75, 70, 65], { paused: true }],
  ])('the time to drain is unknown if the waitlist %s', async (_, sizes, last = {}) => {
    expect(await estimate(sizes, last)).toBeUndefined();
  });

  it('the time to drain is close to the actual time in a simulation', async () => {
    // Unlike most seeds, this one has predictions before the last minute.
    const ratios = await drainCourse(10);
    expect(ratios.length).toBeGreaterThan(10);
    for (const ratio of ratios) expect(Math.abs(ratio - 1)).toBeLessThan(0.5);
  });
});
