import { describe, expect, it } from 'vitest';
import { createBudget } from '../../src/upstream/budget.ts';
import type { BudgetOptions } from '../../src/upstream/options.ts';
import type { Priority } from '../../src/upstream/send.ts';
import { createManualClock, settle } from '../support/manual-clock.ts';

function setUp(options: Partial<BudgetOptions>) {
  const clock = createManualClock(Date.UTC(2026, 0, 1, 23, 59));
  let waited = 0;
  const budget = createBudget(
    { requestsPerSecond: 10, burst: 1, concurrency: 100, requestsPerDay: 1000, ...options },
    clock,
    seconds => {
      waited += seconds;
    },
  );
  const started: string[] = [];
  const signal = new AbortController().signal;
  const ask = (name: string, priority: Priority = 'events', work: () => Promise<void> = async () => undefined) =>
    budget.run(priority, signal, async () => {
      started.push(name);
      await work();
    });
  return { clock, budget, started, ask, waited: () => waited };
}

describe('budget', () => {
  it('the budget runs a starved background request before newer urgent requests', async () => {
    const { clock, started, ask } = setUp({ requestsPerSecond: 1 });
    await ask('first');
    const walk = ask('walk', 'background');
    const lists = Array.from({ length: 30 }, (_, index) =>
      clock.sleep(index * 1000).then(() => ask('list', 'flow_control')),
    );
    await clock.advance(14_000);
    expect(started).not.toContain('walk');
    await clock.advance(6000);
    expect(started).toContain('walk');
    await clock.advance(20_000);
    await Promise.all([walk, ...lists]);
  });

  it('the budget runs requests with the priority "look" last, but does not starve them', async () => {
    const { clock, started, ask } = setUp({ requestsPerSecond: 1 });
    await ask('first');
    const all = [ask('look', 'look'), ask('walk', 'background'), ask('cancel', 'action')];
    const lists = Array.from({ length: 40 }, (_, index) =>
      clock.sleep(index * 1000).then(() => ask('list', 'flow_control')),
    );
    await clock.advance(2000);
    expect(started[1]).toBe('cancel');
    await clock.advance(50_000);
    await Promise.all([...all, ...lists]);
    const [walk, look] = [started.indexOf('walk'), started.indexOf('look')];
    expect([walk < look, look < started.lastIndexOf('list')]).toEqual([true, true]);
  });

  it('the budget resumes from a stored number of requests from the same day, but not from another day', () => {
    const clock = createManualClock(Date.UTC(2026, 0, 1, 23, 59));
    const options = { requestsPerSecond: 10, burst: 1, concurrency: 1, requestsPerDay: 100 };
    const today = Math.floor(clock.now() / 86_400_000);
    const left = (day: number) => createBudget(options, clock, () => undefined, { day, requests: 30 }).remaining();
    expect([left(today), left(today - 1)]).toEqual([70, 100]);
    const { budget, ask } = setUp({});
    return ask('a').then(() => expect(budget.spent()).toEqual({ day: today, requests: 1 }));
  });

  it('the budget runs a burst immediately, and further requests at the configured rate', async () => {
    const { clock, started, ask, waited } = setUp({ burst: 3 });
    const all = ['a', 'b', 'c', 'd', 'e'].map(name => ask(name));
    await settle();
    expect(started).toEqual(['a', 'b', 'c']);
    await clock.advance(99);
    expect(started).toHaveLength(3);
    await clock.advance(2);
    expect(started).toEqual(['a', 'b', 'c', 'd']);
    await clock.advance(100);
    await Promise.all(all);
    expect(waited()).toBeCloseTo(0.3, 1);
  });

  it('the budget never exceeds the allowed concurrency', async () => {
    const { started, ask } = setUp({ burst: 10, concurrency: 2 });
    const release: (() => void)[] = [];
    const hold = () => new Promise<void>(resolve => release.push(resolve));
    const all = ['a', 'b', 'c'].map(name => ask(name, 'events', hold));
    await settle();
    expect(started).toEqual(['a', 'b']);
    release[0]?.();
    await settle();
    expect(started).toEqual(['a', 'b', 'c']);
    for (const done of release) done();
    await Promise.all(all);
  });

  it('the budget releases a slot when a request fails', async () => {
    const { started, ask } = setUp({ burst: 10, concurrency: 1 });
    await expect(ask('a', 'events', async () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    await ask('b');
    expect(started).toEqual(['a', 'b']);
  });

  it('the budget runs requests by priority, then in the order of arrival', async () => {
    const { clock, started, ask } = setUp({});
    await ask('first');
    const all = [ask('background', 'background'), ask('normal 1'), ask('action', 'action'), ask('normal 2')];
    await clock.advance(500);
    await Promise.all(all);
    expect(started).toEqual(['first', 'action', 'normal 1', 'normal 2', 'background']);
  });

  it('the budget drops a request that is aborted while it waits', async () => {
    const { clock, budget, started, ask } = setUp({});
    await ask('a');
    const stop = new AbortController();
    const waiting = budget.run('events', stop.signal, async () => void started.push('never'));
    stop.abort(new Error('stopping'));
    await expect(waiting).rejects.toThrow('stopping');
    expect(budget.remaining()).toBe(999);
    const next = ask('b');
    await clock.advance(200);
    await next;
    expect(started).toEqual(['a', 'b']);
  });

  it('the budget reserves a tenth of the daily budget for actions, rejects requests that exceed their share, and resets at 00:00 UTC', async () => {
    const { clock, budget, ask } = setUp({ burst: 10, requestsPerDay: 3 });
    await ask('a');
    expect(budget.remaining()).toBe(2);
    await ask('b');
    await expect(ask('c')).rejects.toMatchObject({ reason: 'refused' });
    await expect(ask('look', 'look')).rejects.toMatchObject({ reason: 'refused' });
    expect(budget.remaining()).toBe(1);
    await ask('cancel', 'action');
    await expect(ask('another', 'action')).rejects.toMatchObject({ reason: 'refused' });
    expect(budget.remaining()).toBe(0);
    await clock.advance(60_000);
    expect(budget.remaining()).toBe(3);
    await ask('d');
    expect(budget.remaining()).toBe(2);
  });

  it('the budget spreads the rest of the daily budget over the rest of the day', async () => {
    const { clock, started, ask } = setUp({ requestsPerSecond: 100, burst: 1, requestsPerDay: 35 });
    await ask('first');
    // Reads may use 31 requests. After the first, 30 remain for the last minute of the day: one every two seconds.
    const all = ['a', 'b'].map(name => ask(name));
    await clock.advance(1900);
    expect(started).toEqual(['first']);
    await clock.advance(300);
    expect(started).toEqual(['first', 'a']);
    await clock.advance(2300);
    await Promise.all(all);
    expect(started).toEqual(['first', 'a', 'b']);
  });

  it('the budget does not grant the daily budget twice when the wall clock is set back', async () => {
    const clock = createManualClock(Date.UTC(2026, 0, 2, 0, 0, 1));
    let step = 0;
    const limits = { requestsPerSecond: 10, burst: 10, concurrency: 1, requestsPerDay: 5 };
    const budget = createBudget(limits, { ...clock, now: () => clock.now() + step }, () => undefined);
    await budget.run('events', new AbortController().signal, async () => undefined);
    step = -60_000;
    expect(budget.remaining()).toBe(4);
    step = 0;
    expect(budget.remaining()).toBe(4);
  });

  it('the budget does not grant the daily budget twice after a restart with a wall clock that is behind', async () => {
    const clock = createManualClock(Date.UTC(2026, 0, 1, 23, 30));
    const options = { requestsPerSecond: 10, burst: 1, concurrency: 1, requestsPerDay: 100 };
    const today = Math.floor(clock.now() / 86_400_000);
    for (const day of [today + 1, today + 400]) {
      const budget = createBudget(options, clock, () => undefined, { day, requests: 30 });
      expect(budget.remaining(), `day ${day}`).toBe(70);
    }
  });

  it('the budget resets daily again after the wall clock was far ahead and was corrected', async () => {
    const clock = createManualClock(Date.UTC(2026, 0, 2, 12));
    let step = 0;
    const limits = { requestsPerSecond: 10, burst: 10, concurrency: 1, requestsPerDay: 5 };
    const budget = createBudget(limits, { ...clock, now: () => clock.now() + step }, () => undefined);
    step = 400 * 86_400_000;
    await budget.run('events', new AbortController().signal, async () => undefined);
    step = 0;
    expect(budget.remaining()).toBe(4);
    await clock.advance(86_400_000);
    expect(budget.remaining()).toBe(5);
    expect(budget.spent().day).toBe(Math.floor(clock.now() / 86_400_000));
  });

  it('the budget runs no requests during a pause: short pauses delay requests, long ones reject them immediately', async () => {
    const { clock, budget, started, ask } = setUp({ requestsPerSecond: 0.01, burst: 2 });
    budget.pause(20_000);
    const held = ask('held');
    await clock.advance(19_000);
    expect(started).toEqual([]);
    await clock.advance(1001);
    await held;
    const waiting = [ask('held too long'), ask('held too long too')];
    budget.pause(25_000);
    await settle();
    budget.pause(3_600_000);
    for (const refused of waiting.slice(1)) await expect(refused).rejects.toMatchObject({ reason: 'rate_limited' });
    await expect(ask('refused')).rejects.toMatchObject({ reason: 'rate_limited', retryAfter: 900_000 });
    await clock.advance(900_000);
    await ask('sent after 15 minutes');
    expect(started).toEqual(['held', 'held too long', 'sent after 15 minutes']);
  });

  it('the budget leaves no timer behind when no request waits', async () => {
    const { clock, budget, ask } = setUp({ requestsPerSecond: 0.001 });
    await ask('a');
    const stop = new AbortController();
    const waiting = budget.run('events', stop.signal, async () => undefined);
    await settle();
    expect(clock.sleepers).toBe(1);
    stop.abort(new Error('stopping'));
    await expect(waiting).rejects.toThrow('stopping');
    expect(clock.sleepers).toBe(0);
  });
});
