import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createBodyMemory } from '../../src/upstream/body.ts';
import { runs } from '../support/runs.ts';

const never = new AbortController().signal;
const [TOTAL, LARGEST] = [32, 8];

/** Returns whether a promise is fulfilled after a turn of the event loop. */
async function isDone(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  void promise.then(() => {
    done = true;
  });
  await nextTurn();
  return done;
}

describe('memory for bodies', () => {
  it('all bodies end without exceeding the memory limit, regardless of their sizes, their order and how many of them stall', async () => {
    const bodies = fc.array(fc.record({ size: fc.integer({ min: 1, max: LARGEST }), isStalled: fc.boolean() }), {
      minLength: 1,
      maxLength: 30,
    });
    await fc.assert(
      fc.asyncProperty(bodies, fc.infiniteStream(fc.nat()), async (all, order) => {
        const memory = createBodyMemory(TOTAL, LARGEST);
        const open = all.map(body => ({ ...body, ...memory.open(), held: 0, isWaiting: false }));
        while (open.length > 0) {
          const runnable = open.filter(
            ({ isWaiting, isStalled, held, size }) => !isWaiting && !(isStalled && held === size),
          );
          // If all bodies wait or stall, the oldest one must be stalled, and its timeout ends it.
          const body = runnable[(order.next().value as number) % runnable.length] ?? open[0];
          if (!body) break;
          expect(body.isWaiting).toBe(false);
          if (body.held < body.size) {
            body.isWaiting = true;
            void body.add(1, never).then(() => {
              body.isWaiting = false;
              body.held += 1;
            });
          } else {
            body.release();
            open.splice(open.indexOf(body), 1);
          }
          await nextTurn();
          expect(memory.used()).toBeLessThanOrEqual(TOTAL);
        }
        expect(memory.used()).toBe(0);
      }),
      { numRuns: runs(200) },
    );
  });

  it('bodies other than the oldest wait instead of taking more than TOTAL − LARGEST bytes together', async () => {
    const memory = createBodyMemory(TOTAL, LARGEST);
    const [oldest, second, third, fourth] = [memory.open(), memory.open(), memory.open(), memory.open()];
    for (const body of [oldest, second, third]) await body.add(LARGEST, never);
    const waiting = [second.add(1, never), fourth.add(1, never)] as const;
    expect(await Promise.all(waiting.map(isDone))).toEqual([false, false]);
    third.release();
    expect(await Promise.all(waiting.map(isDone))).toEqual([true, true]);
  });

  it('the oldest body never waits, and after its end the next one is the oldest', async () => {
    const memory = createBodyMemory(TOTAL, LARGEST);
    const [oldest, next, ...others] = Array.from({ length: 6 }, () => memory.open());
    for (const body of others) await body.add((TOTAL - LARGEST) / 4, never);
    const waiting = next?.add(LARGEST, never) as Promise<void>;
    await oldest?.add(LARGEST, never);
    expect(memory.used()).toBe(TOTAL);
    expect(await isDone(waiting)).toBe(false);
    oldest?.release();
    expect(await isDone(waiting)).toBe(true);
    expect(memory.used()).toBe(TOTAL);
  });

  it('a body stops waiting with the reason of its signal', async () => {
    const memory = createBodyMemory(LARGEST, LARGEST);
    memory.open();
    const stop = new AbortController();
    const body = memory.open();
    const waiting = body.add(1, stop.signal);
    stop.abort(new Error('stopping'));
    await expect(waiting).rejects.toThrow('stopping');
    await expect(body.add(1, stop.signal)).rejects.toThrow('stopping');
    body.release();
    expect(memory.used()).toBe(0);
  });
});
