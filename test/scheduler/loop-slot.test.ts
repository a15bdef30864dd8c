import { expect, it } from 'vitest';
import { createLoopSlot } from '../../src/scheduler/loop-slot.ts';
import { afterThisTest } from '../support/client.ts';
import { createManualClock, settle } from '../support/manual-clock.ts';

/** Creates a slot with bodies that log their starts and aborts. A body with a `gate` ends when the gate resolves. */
function setUp() {
  const clock = createManualClock();
  const slot = createLoopSlot({ clock, random: () => 0 });
  afterThisTest(slot.close);
  const log: string[] = [];
  const specOf = (name: string, { every = 10, gate }: { every?: number; gate?: Promise<void> } = {}) => ({
    every,
    firstDelay: 0,
    async body(signal: AbortSignal) {
      log.push(name);
      signal.addEventListener('abort', () => log.push(`${name} aborted`), { once: true });
      await gate;
      if (gate) log.push(`${name} ended`);
    },
  });
  return {
    slot,
    specOf,
    async logAfter(ms: number) {
      await clock.advance(ms);
      return log.splice(0);
    },
  };
}

it('a loop slot continues a loop with the same key and interval, and ignores the new body', async () => {
  const { slot, specOf, logAfter } = setUp();
  await slot.run('key', specOf('first'));
  expect(await logAfter(0)).toEqual(['first']);
  await slot.run('key', specOf('second'));
  expect(await logAfter(0)).toEqual([]);
  expect(await logAfter(10)).toEqual(['first']);
});

it('a loop slot replaces a loop when its interval changes', async () => {
  const { slot, specOf, logAfter } = setUp();
  await slot.run('key', specOf('fast'));
  await logAfter(0);
  await slot.run('key', specOf('slow', { every: 1000 }));
  expect(await logAfter(0)).toEqual(['fast aborted', 'slow']);
  expect(await logAfter(999)).toEqual([]);
});

it('a loop slot aborts the body of a loop with another key and starts the new loop only after that body has ended', async () => {
  const { slot, specOf, logAfter } = setUp();
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  await slot.run('old', specOf('old', { gate }));
  expect(await logAfter(0)).toEqual(['old']);
  const replaced = slot.run('new', specOf('new'));
  expect(await logAfter(100)).toEqual(['old aborted']);
  open();
  await replaced;
  expect(await logAfter(0)).toEqual(['old ended', 'new']);
});

it('a loop slot ends the loop if no new loop is given, and can start a loop with the same key afterwards', async () => {
  const { slot, specOf, logAfter } = setUp();
  await slot.run('key', specOf('first'));
  await logAfter(0);
  await slot.run('key', undefined);
  expect(await logAfter(100)).toEqual(['first aborted']);
  await slot.run('key', specOf('second'));
  expect(await logAfter(0)).toEqual(['second']);
});

it('a loop slot waits for the running body when closed, and starts no loop afterwards', async () => {
  const { slot, specOf, logAfter } = setUp();
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  await slot.run('key', specOf('gated', { gate }));
  await logAfter(0);
  let isClosed = false;
  const closed = slot.close().then(() => {
    isClosed = true;
  });
  await settle();
  expect(isClosed).toBe(false);
  open();
  await closed;
  await slot.run('other', specOf('other'));
  expect(await logAfter(100)).toEqual(['gated aborted', 'gated ended']);
});

it('when closed, a loop slot waits for a replaced body that is still ending, and does not start the new loop', async () => {
  const { slot, specOf, logAfter } = setUp();
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  await slot.run('old', specOf('old', { gate }));
  await logAfter(0);
  const replaced = slot.run('new', specOf('new'));
  let isClosed = false;
  const closed = slot.close().then(() => {
    isClosed = true;
  });
  await settle();
  expect(isClosed).toBe(false);
  open();
  await Promise.all([replaced, closed]);
  expect(await logAfter(100)).toEqual(['old aborted', 'old ended']);
});
