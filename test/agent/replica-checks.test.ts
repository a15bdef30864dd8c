import { describe, expect, it } from 'vitest';
import {
  checkDeletes,
  checkNotifications,
  checkOneAtATime,
  gapsOf,
  type Poll,
  watchCounters,
} from '../support/replica-checks.ts';

/** Parses requests for one account, such as `a@0-10 b@20-30`: replica, start and end of each request. */
const polls = (text: string, more: Partial<Poll> = {}): Poll[] =>
  text.split(' ').map(each => {
    const [, replica = '', start, end] = /^(\w)@(\d+)-(\d+)$/.exec(each) ?? [];
    const times = { start: Number(start), end: Number(end) };
    return { replica, account: 'x', method: 'GET', path: '/v2/dlq', ...times, ...more };
  });

const epochs = (gained: number) => new Map([['x', gained]]);

describe('checks of requests by replicas', () => {
  it.each([
    ['a@0-10 a@5-20 b@30-40 b@50-60', 2, []],
    ['a@0-10 b@9-20', 2, ['x: b asked 1 ms before the last request of a ended']],
    // The replicas never poll simultaneously, but the poller changes more often than the lease was gained.
    ['a@0-10 b@20-30 a@40-50', 2, ['x: gained 2 times, polled alternately by a,b,a']],
    ['a@0-10 b@20-30 a@40-50', 3, []],
    ['a@0-10', 0, ['x: gained 0 times, polled alternately by a']],
  ])('the check for concurrent polling, given %s and %i gains, reports %j', (text, gained, faults) => {
    expect(checkOneAtATime(polls(text), epochs(gained), []).faults).toEqual(faults);
  });

  it('the check for concurrent polling ignores the requests of a replica only while that replica is isolated', () => {
    const both = polls('a@0-10 a@100-110 b@105-115 a@120-130 b@140-150');
    const isolation = { replica: 'a', from: 50, to: 125 };
    expect(checkOneAtATime(both, epochs(2), [isolation])).toEqual({ handOvers: 1, faults: [] });
    expect(checkOneAtATime(both, epochs(2), [{ ...isolation, to: 119 }]).faults).toHaveLength(1);
    expect(checkOneAtATime(both, epochs(2), [{ ...isolation, from: 0, to: 60 }]).faults).toHaveLength(2);
  });

  it('the check for gaps finds the longest gaps between requests, including gaps at the start and end, and accounts without requests', () => {
    expect(gapsOf(polls('a@10-11 a@40-41 a@60-61'), ['x', 'y'], 0, 100)).toEqual([
      { account: 'y', from: 0, to: 100 },
      { account: 'x', from: 60, to: 100 },
      { account: 'x', from: 10, to: 40 },
      { account: 'x', from: 40, to: 60 },
      { account: 'x', from: 0, to: 10 },
    ]);
  });

  it('the check for repeated DELETEs finds a DELETE that is sent more than once, even by different replicas', () => {
    const del = (text: string, path: string) => polls(text, { method: 'DELETE', path });
    expect(checkDeletes([...del('a@0-1', '/1'), ...del('b@0-1', '/2'), ...polls('a@0-1 b@0-1')])).toEqual([]);
    expect(checkDeletes([...del('a@0-1', '/1'), ...del('b@5-6', '/1')])).toEqual(['x /1 by a,b']);
  });

  it('the check of notifications finds duplicates, except repetitions after an interruption of the sender', () => {
    const sent = { account: 'x', alert: 'Any', status: 'firing', startsAt: '1', key: 'k', replica: 'a', start: 0 };
    expect(checkNotifications([sent, { ...sent, status: 'resolved' }, { ...sent, account: 'y' }], [])).toEqual([]);
    expect(checkNotifications([sent, { ...sent, replica: 'b' }], [])).toEqual(['Any x firing 1 by a (k), b (k)']);
    const end = { replica: 'a', from: sent.start + 1, to: sent.start + 2 };
    expect(checkNotifications([sent, { ...sent, replica: 'b' }], [end])).toEqual([]);
    expect(checkNotifications([sent, { ...sent, replica: 'b' }], [{ ...end, from: sent.start + 60_000 }])).toHaveLength(
      1,
    );
    expect(checkNotifications([sent, { ...sent, replica: 'b', key: 'other' }], [end])).toHaveLength(1);
  });

  it('the check of counters finds a decrease within a replica and across replicas', () => {
    const watch = watchCounters();
    const see = (replica: string, value: number, known = watch.mark()) =>
      watch.saw(replica, new Map([['x', value]]), known);
    see('a', 5);
    see('b', 5);
    // A replica that already exposes the series may lag behind another one, so only its own last value counts.
    see('b', 7);
    see('a', 5);
    expect(watch.faults).toEqual([]);
    see('a', 4);
    see('c', 6);
    // This scrape started before another replica showed a higher value.
    see('d', 6, new Map());
    expect(watch.faults).toEqual(['x: a shows 4 after 5', 'x: c shows 6 after 7']);
    watch.ended('b');
    see('b', 6);
    expect(watch.faults).toHaveLength(3);
    expect(watch.seen).toBe(8);
  });
});
