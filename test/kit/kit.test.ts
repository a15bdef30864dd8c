import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { backoffDelay, createRetry } from '../../src/kit/backoff.ts';
import { BoundedMap } from '../../src/kit/bounded-map.ts';
import { systemClock, withDeadline } from '../../src/kit/clock.ts';
import { createClosing } from '../../src/kit/closing.ts';
import { Duration, formatDuration, parseDuration } from '../../src/kit/duration.ts';
import { createGlob } from '../../src/kit/glob.ts';
import { fingerprint, Secret } from '../../src/kit/secret.ts';

describe('duration', () => {
  it.each([
    ['500ms', 500],
    ['15s', 15_000],
    ['5m', 300_000],
    ['4h', 14_400_000],
    ['7d', 604_800_000],
  ])('parseDuration parses %s', (text, ms) => expect(parseDuration(text)).toBe(ms));

  it.each(['', '15', 's', '1.5s', '-1s', ' 1s', '1 s', '1w', '1S', '999999999999s'])('parseDuration rejects %j', text =>
    expect(parseDuration(text)).toBeUndefined(),
  );

  it('formatDuration returns text that parses to the same value', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 366 * 86_400_000 }), ms => parseDuration(formatDuration(ms)) === ms),
    );
    expect(formatDuration(90_000)).toBe('90s');
    expect(formatDuration(3_600_000)).toBe('1h');
  });

  it.each(['0s', '367d', 'soon', 15])('a configuration rejects the duration %j', value =>
    expect(Duration.safeParse(value).error?.issues[0]?.message).toContain('must be a duration'),
  );
});

describe('clock', () => {
  it('an aborted sleep rejects immediately with the abort reason', async () => {
    const controller = new AbortController();
    const sleep = systemClock.sleep(60_000, controller.signal);
    controller.abort(new Error('stop'));
    await expect(sleep).rejects.toThrow('stop');
    await expect(systemClock.sleep(1, controller.signal)).rejects.toThrow('stop');
  });

  it('a sleep longer than the maximum timer delay does not end early', async () => {
    const controller = new AbortController();
    let woken = false;
    const sleep = systemClock.sleep(2 ** 31 + 5, controller.signal).then(() => {
      woken = true;
    });
    await systemClock.sleep(20);
    expect(woken).toBe(false);
    controller.abort(new Error('enough'));
    await expect(sleep).rejects.toThrow('enough');
  });

  it('a deadline in the past causes a timeout, but no process warning', async () => {
    const warn = vi.spyOn(process, 'emitWarning').mockReturnValue();
    const untilOver = (signal: AbortSignal) => systemClock.sleep(60_000, signal);
    await expect(withDeadline(-5, new AbortController().signal, untilOver)).rejects.toMatchObject({
      name: 'TimeoutError',
    });
    expect(warn).not.toHaveBeenCalled();
    warn.mockRestore();
  });

  it('a deadline aborts its signal when the time is up or the parent signal is aborted', async () => {
    const never = (signal: AbortSignal) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    await expect(withDeadline(5, new AbortController().signal, never)).rejects.toMatchObject({ name: 'TimeoutError' });
    const parent = new AbortController();
    const work = withDeadline(60_000, parent.signal, never);
    parent.abort(new Error('shutting down'));
    await expect(work).rejects.toThrow('shutting down');
    await expect(withDeadline(60_000, parent.signal, async signal => signal.aborted)).resolves.toBe(true);
  });

  it('a deadline with a grace period aborts its signal only after that period, so that work can end within it', async () => {
    const stop = (grace: number, ms: number) => {
      const parent = new AbortController();
      const work = withDeadline(60_000, parent.signal, signal => systemClock.sleep(ms, signal), grace);
      parent.abort(new Error('shutting down'));
      return work;
    };
    await expect(stop(10, 30_000)).rejects.toThrow('shutting down');
    await expect(stop(30_000, 10)).resolves.toBeUndefined();
  });
});

describe('closing', () => {
  it('parts are closed in reverse order, even after a failure, and every failure is reported', async () => {
    const closed: string[] = [];
    const closing = createClosing();
    closing.add('first', () => closed.push('first'));
    closing.add('second', () => {
      throw new Error('stuck');
    });
    closing.add('third', async () => closed.push('third'));
    const error = await closing.close().catch((error: unknown) => error);
    expect(closed).toEqual(['third', 'first']);
    expect(error).toBeInstanceOf(AggregateError);
    expect((error as AggregateError).errors).toMatchObject([
      { message: 'second did not close', cause: { message: 'stuck' } },
    ]);
    await closing.close();
    expect(closed).toEqual(['third', 'first']);
  });
});

describe('secret', () => {
  it('a secret never reveals its value, however it is printed or copied', () => {
    const secret = new Secret('canary');
    const prints = [
      `${secret}`,
      String(secret),
      JSON.stringify({ secret }),
      inspect({ secret }, { depth: 9, showHidden: true }),
      inspect(secret),
      JSON.stringify(Object.entries(secret)),
      JSON.stringify(structuredClone({ ...secret })),
    ];
    for (const print of prints) expect(print).not.toContain('canary');
    expect(prints[0]).toBe('<secret>');
    expect(secret.reveal()).toBe('canary');
  });

  it('different secrets have different fingerprints', () => {
    // The first digits of `printf canary | sha256sum`.
    expect(fingerprint(new Secret('canary'))).toBe('sha256:e100fbce008c');
    expect(fingerprint(new Secret('canary2'))).not.toBe(fingerprint(new Secret('canary')));
  });
});

describe('backoff', () => {
  it('the backoff is between 50 % and 100 % of a delay that doubles up to a cap', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 60 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (attempt, random) => {
          const ceiling = Math.min(5000, 250 * 2 ** (attempt - 1));
          const delay = backoffDelay({ first: 250, longest: 5000 }, attempt, () => random);
          return delay >= ceiling / 2 && delay <= ceiling;
        },
      ),
    );
  });

  it('the backoff resets after a success', () => {
    let now = 0;
    const retry = createRetry({ first: 100, longest: 300 }, { monotonic: () => now }, () => 1);
    const waitOf = () => {
      const start = now;
      while (!retry.isDue()) now += 1;
      return now - start;
    };
    const waits = [0, 1, 2, 3].map(() => {
      retry.failed();
      return waitOf();
    });
    expect([waits, retry.failures]).toEqual([[100, 200, 300, 300], 4]);
    retry.failed();
    retry.succeeded();
    expect([retry.isDue(), retry.failures]).toEqual([true, 0]);
    retry.failed();
    expect(waitOf()).toBe(100);
  });
});

describe('bounded map', () => {
  it('a bounded map retains the newest entries, up to its limit', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.array(fc.integer({ min: 0, max: 12 })), (limit, keys) => {
        const map = new BoundedMap<number, number>(limit);
        for (const [index, key] of keys.entries()) map.set(key, index);
        const newest = [...new Set(keys.toReversed())].slice(0, limit);
        expect(map.size).toBe(newest.length);
        for (const key of new Set(keys)) {
          expect(map.has(key)).toBe(newest.includes(key));
          expect(map.get(key)).toBe(newest.includes(key) ? keys.lastIndexOf(key) : undefined);
        }
      }),
    );
  });
});

describe('glob', () => {
  it.each([
    ['abc', 'abc', true],
    ['abc', 'abcd', false],
    ['*', '', true],
    ['a*', 'a', true],
    ['a*', 'ba', false],
    ['*a', 'ba', true],
    ['a*a', 'a', false],
    ['a*b*c', 'a-b-c', true],
    ['a*bb*bc', 'abbc', false],
    ['a.c', 'abc', false],
    ['**', 'x\ny', true],
  ])('the glob %s matches %j: %s', (pattern, text, expected) => expect(createGlob(pattern)(text)).toBe(expected));

  it('a glob matches the same texts as the equivalent regular expression', () => {
    const letters = fc.string({ unit: fc.constantFrom('a', 'b', '*'), maxLength: 8 });
    fc.assert(
      fc.property(letters, fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 8 }), (pattern, text) => {
        expect(createGlob(pattern)(text)).toBe(new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(text));
      }),
    );
  });
});
