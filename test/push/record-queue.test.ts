import { describe, expect, it } from 'vitest';
import { type LogRecord, MOST_RECORDS } from '../../src/model/log-record.ts';
import { createLogExport } from '../../src/push/logs.ts';
import { createRecordQueue } from '../../src/push/record-queue.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { decodeLogs } from '../support/otlp-log-receiver.ts';
import { createTestLog } from '../support/silent.ts';

type Outcome = 'accepted' | 'refused' | 'failed' | 'hang';

const never = new AbortController().signal;
const DAY = 86_400_000;

/** A queue over a store that outlasts it, and a receiver that answers as it is told. */
function createScene() {
  const store = createMemoryStore();
  const clock = createManualClock();
  const log = createTestLog();
  const received: string[] = [];
  const sizes: number[] = [];
  const held = new Set(['a', 'b']);
  let dropped = 0;
  let outcome: Outcome = 'accepted';
  let made = 0;
  const taking = {
    dropped(count: number) {
      dropped += count;
    },
  };

  function start() {
    const queue = createRecordQueue({ store, clock, log });
    queue.use(taking);
    const ended = new AbortController();
    const exporting = createLogExport({
      version: '1',
      resource: { 'service.name': 'delivery-watch' },
      queue,
      accounts: () => ['a', 'b'],
      isHeld: account => held.has(account),
      signal: ended.signal,
      sender: {
        isDue: () => true,
        async send({ body, items }) {
          if (outcome === 'hang') await new Promise(() => undefined);
          const logs = decodeLogs(body);
          expect(items).toBe(logs.length);
          sizes.push(items);
          if (outcome === 'accepted') received.push(...logs.map(each => String(each.attributes['delivery.dlq.id'])));
          return { outcome: outcome as 'accepted' | 'refused' | 'failed' };
        },
      },
    });
    return { queue, exporting };
  }
  let { queue, exporting } = start();
  const record = (): LogRecord => {
    made += 1;
    const letter = { dlqId: `d${made}` } as never;
    return { kind: 'dlq_entered', id: `entered/${made}/1`, at: undefined, letter };
  };
  const records = (count: number) => ({ records: Array.from({ length: count }, record), dropped: 0 });
  return {
    clock,
    store,
    log,
    /** What another process makes. */
    elsewhere(count: number) {
      const other = createRecordQueue({ store, clock, log });
      other.use(taking);
      return other.post('a', records(count));
    },
    received,
    sizes,
    held,
    dropped: () => dropped,
    queue: () => queue,
    answer(next: Outcome) {
      outcome = next;
    },
    /** Posts so many, commits them unless told otherwise, and says so. */
    async post(count: number, { account = 'a', isCommitted = true } = {}) {
      const posting = queue.post(account, records(count));
      if (!isCommitted) return;
      await store.commit(account, posting.changes());
      posting.send();
    },
    run: (signal = never) => exporting.run(signal),
    kill() {
      ({ queue, exporting } = start());
    },
    rows: async (account = 'a') => (await store.scan(account, 'push/logs/')).size,
  };
}

describe('log records in the store', () => {
  it('are sent once they are committed, and never before', async () => {
    const { post, run, received, rows } = createScene();
    await post(1, { isCommitted: false });
    await run();
    expect(received).toEqual([]);
    await post(2);
    await run();
    expect([received, await rows()]).toEqual([['d2', 'd3'], 0]);
    await run();
    expect(received).toEqual(['d2', 'd3']);
  });

  it('wait while the receiver fails, across the end of the process, and go out in their order', async () => {
    const { post, run, answer, kill, received, rows } = createScene();
    answer('failed');
    await post(1);
    await run();
    await post(1, { account: 'b' });
    kill();
    await post(1);
    await run();
    answer('accepted');
    kill();
    await run();
    expect([received, await rows(), await rows('b')]).toEqual([['d1', 'd3', 'd2'], 0, 0]);
  });

  it('that the receiver can make nothing of do not hold up the others', async () => {
    const { post, run, answer, received, rows } = createScene();
    answer('refused');
    await post(1);
    await run();
    answer('accepted');
    await post(1);
    await run();
    expect([received, await rows()]).toEqual([['d2'], 0]);
  });

  it('go out 250 at a time', async () => {
    const { post, run, sizes } = createScene();
    await post(3);
    await post(600);
    await post(249);
    await post(1);
    await run();
    // Rows of one commit stay whole.
    expect(sizes).toEqual([3, 250, 250, 100, 250]);
  });

  it('are as many as may wait: the rest is counted, and said once until none waits', async () => {
    const { post, run, answer, dropped, log, received, kill } = createScene();
    answer('failed');
    await post(MOST_RECORDS - 1);
    await post(3);
    await post(1);
    expect(dropped()).toBe(3);
    kill();
    await run();
    await post(1);
    expect(dropped()).toBe(4);
    const full = () => log.lines.filter(line => JSON.stringify(line).includes('queue of log records is full')).length;
    expect(full()).toBe(2);
    answer('accepted');
    await run();
    await run();
    expect(received).toHaveLength(MOST_RECORDS);
    await post(1);
    await run();
    expect([received.length, full()]).toEqual([MOST_RECORDS + 1, 2]);
  });

  it('of an account that another replica holds are left to it, and looked for when it comes back', async () => {
    const { post, run, held, received, rows, queue } = createScene();
    await post(1);
    held.delete('a');
    await run();
    expect([received, await rows()]).toEqual([[], 1]);
    queue().withRecords(['b']);
    held.add('a');
    await run();
    expect([received, await rows()]).toEqual([['d1'], 0]);
  });

  it('that another replica left of what it held for a while are sent', async () => {
    const { store, run, held, received, elsewhere } = createScene();
    await run();
    held.delete('a');
    await run();
    await store.commit('a', elsewhere(1).changes());
    held.add('a');
    await run();
    expect(received).toEqual(['d1']);
  });

  it('are not made while they are off', async () => {
    const { post, run, queue, received, rows } = createScene();
    queue().use(undefined);
    await post(1);
    await run();
    expect([received, await rows()]).toEqual([[], 0]);
  });

  it('do not hold up the end of the loop while the receiver never answers', async () => {
    const { post, run, answer, rows } = createScene();
    answer('hang');
    await post(1);
    const ended = new AbortController();
    const running = run(ended.signal);
    ended.abort();
    await running;
    expect(await rows()).toBe(1);
  });

  it('are deleted unsent after a day, of an account that is no longer configured', async () => {
    const { clock, store, queue, elsewhere } = createScene();
    const [first, second] = [elsewhere(1).changes(), elsewhere(1).changes()];
    await store.commit('a', first);
    await store.commit('gone', [...second, { key: 'events/checkpoint', value: '{}' }]);
    const keysOf = async (account: string) => [...(await store.scan(account, '')).keys()].sort();
    await clock.advance(DAY);
    // It may be that of a replica which is down: nothing else is known of the account.
    await queue().deleteOthers(['a', 'b'], never);
    expect(await keysOf('gone')).toEqual(['events/checkpoint', second[0]?.key]);
    await clock.advance(1);
    await queue().deleteOthers(['a', 'b'], never);
    expect(await keysOf('a')).toEqual(first.map(({ key }) => key));
    expect(await keysOf('gone')).toEqual(['events/checkpoint']);
  });

  it('have room again in an account that comes back after its own were deleted, while the receiver is down', async () => {
    const { clock, queue, post, run, rows, dropped } = createScene();
    await post(MOST_RECORDS);
    await run(AbortSignal.abort());
    await clock.advance(DAY + 1);
    await queue().deleteOthers(['b'], never);
    await post(1);
    expect([await rows(), dropped()]).toEqual([1, 0]);
  });
});
