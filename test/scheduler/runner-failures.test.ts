import { describe, expect, it } from 'vitest';
import { done, Refusal, type Step, setUp, step } from './runner-scene.ts';

describe('a runner with failing rounds', () => {
  it('a runner keeps the last good facts when a round fails, drops the unfinished walk, and logs the first failure once', async () => {
    const results: (() => Step)[] = [
      () => done('good'),
      () => step('half', { facts: 'half' }),
      () => {
        throw new Refusal('slow down');
      },
      () => {
        throw new Refusal('slow down');
      },
      () => done('better'),
    ];
    const walks: unknown[] = [];
    const { run, slot, clock, round, log, tracer } = await setUp(async ({ walk }) => {
      walks.push(walk);
      return (results.shift() as () => Step)();
    });
    await run();
    await clock.advance(500);
    await run();
    expect(slot.visible().now).toBe('good');
    expect(round()).toMatchObject({
      success: false,
      complete: false,
      consecutiveFailures: 1,
      dataAt: clock.now() - 500,
      failure: { reason: 'rate_limited', message: 'slow down' },
    });
    await run();
    expect(round()?.consecutiveFailures).toBe(2);
    await run();
    expect(walks).toEqual([undefined, undefined, 'half', undefined, undefined]);
    expect(slot.visible().now).toBe('better');
    expect(round()).toMatchObject({ success: true, consecutiveFailures: 0, failure: undefined });
    expect(log.lines.filter(({ level }) => level !== 'debug').map(({ level, message }) => [level, message])).toEqual([
      ['warn', 'collection failed'],
      ['info', 'collection recovered'],
    ]);
    expect(tracer.spans).toEqual(Array(4).fill('collect x'));
  });

  it('a runner classifies an error without a reason as a bug and logs its stack', async () => {
    const { run, round, log } = await setUp(
      async () => (undefined as unknown as { missing: { field: Step } }).missing.field,
    );
    await run();
    expect(round()?.failure?.reason).toBe('bug');
    expect(log.lines[0]).toMatchObject({
      level: 'error',
      fields: { stack: expect.stringContaining('runner-failures.test.ts') },
    });
  });

  it('a runner does not count an aborted round', async () => {
    const stop = new AbortController();
    const { run, round, log } = await setUp(async () => {
      stop.abort(new Error('stopping'));
      stop.signal.throwIfAborted();
      return done('never');
    });
    await run(stop.signal);
    expect(round()).toMatchObject({ success: undefined, consecutiveFailures: 0 });
    expect(log.lines).toEqual([]);
  });

  it('a runner counts an idle round as neither success nor failure, and folds nothing', async () => {
    let idle: 'waiting' | 'not_due' | undefined = 'waiting';
    const { run, round, slot, log } = await setUp(async () => ({ ...done('facts'), idle }));
    await run();
    expect(round()).toMatchObject({ success: undefined, complete: undefined, dataAt: undefined, idle: 'waiting' });
    expect(slot.visible()).toEqual({ now: undefined, committed: undefined });
    idle = undefined;
    await run();
    expect(round()).toMatchObject({ success: true, idle: undefined });
    idle = 'not_due';
    await run();
    expect(round()).toMatchObject({ success: true, idle: 'not_due' });
    expect(log.lines.map(({ message }) => message)).toEqual(['collected']);
  });

  it('a runner logs each failure reason every five minutes, even if reasons alternate', async () => {
    let failures = 0;
    const { run, log, clock } = await setUp(async () => {
      failures += 1;
      throw failures % 2 === 0 ? new Refusal('slow down') : Object.assign(new Error('no'), { reason: 'timeout' });
    });
    for (let round = 0; round < 120; round += 1) {
      await clock.advance(5000);
      await run();
    }
    const reasons = log.lines.flatMap(({ level, fields }) =>
      level === 'warn' ? [(fields as { reason: string }).reason] : [],
    );
    expect(reasons).toEqual(['timeout', 'rate_limited', 'timeout', 'rate_limited']);
  });

  it('a runner logs a persistent failure every five minutes with the age of the data, and logs the recovery once', async () => {
    let isHealthy = true;
    const { run, log, clock } = await setUp(async () => {
      if (!isHealthy) throw new Refusal('slow down');
      return done('facts');
    });
    await run();
    isHealthy = false;
    for (let minute = 0; minute < 11; minute += 1) {
      await clock.advance(60_000);
      await run();
    }
    isHealthy = true;
    await run();
    await run();
    const fields = { account: 'a', collector: 'x', round: 'list' };
    const failing = { ...fields, reason: 'rate_limited', error: 'slow down' };
    expect(log.lines.filter(({ level }) => level !== 'debug')).toEqual([
      { level: 'warn', message: 'collection failed', fields: { ...failing, ageSeconds: 60 } },
      { level: 'warn', message: 'collection still fails', fields: { ...failing, ageSeconds: 360 } },
      { level: 'warn', message: 'collection still fails', fields: { ...failing, ageSeconds: 660 } },
      { level: 'info', message: 'collection recovered', fields },
    ]);
  });
});
