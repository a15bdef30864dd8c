import { expect, it } from 'vitest';
import { createLoopSet } from '../../src/scheduler/loop-set.ts';
import { afterThisTest } from '../support/client.ts';
import { createManualClock } from '../support/manual-clock.ts';

it('ends what is no longer wanted before it begins what is new, and lets the rest go on', async () => {
  const clock = createManualClock();
  const loops = createLoopSet({ clock, random: () => 0 });
  afterThisTest(loops.close);
  const said: string[] = [];
  const body = (name: string) => async (signal: AbortSignal) => {
    said.push(name);
    signal.addEventListener('abort', () => said.push(`${name} aborted`), { once: true });
  };
  const [stays, goes, comes] = [body('stays'), body('goes'), body('comes')];
  const spec = (body: (signal: AbortSignal) => Promise<void>, every = 10) => ({ body, every, firstDelay: 0 });
  await loops.run([spec(stays), spec(goes)]);
  await clock.advance(0);
  expect(said.splice(0)).toEqual(['stays', 'goes']);
  await loops.run([spec(stays), spec(comes)]);
  await clock.advance(0);
  expect(said.splice(0)).toEqual(['goes aborted', 'comes']);
  await clock.advance(10);
  expect(said.splice(0).sort()).toEqual(['comes', 'stays']);
  await loops.run([spec(stays, 1000), spec(comes)]);
  await clock.advance(0);
  // Each turn has listened once.
  expect(said.splice(0)).toEqual(['stays aborted', 'stays aborted', 'stays']);
  await loops.close();
  await loops.run([spec(goes)]);
  await clock.advance(10);
  expect(said).not.toContain('goes');
});
