import { expect, it } from 'vitest';
import type { CatchUp } from '../../src/scheduler/runner.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { done, type Step, setUp, step } from './runner-scene.ts';

const row = (value: string) => ({ changes: [{ key: 'n', value }] });

async function catchingUp(steps: Step[], end: CatchUp['end']) {
  const store = createMemoryStore();
  await store.commit('a', [{ key: 'x/n', value: '0' }]);
  const set = await setUp(async () => steps.shift() as Step, store, ['list', 'other'], { round: 'list', end });
  const seen: unknown[] = [];
  const look = () => seen.push([set.slot.visible().committed, set.slot.visible().isCatchingUp ?? false]);
  return { ...set, seen, look };
}

it('shows what only rises once the round that catches up is complete, and what it shows then is kept', async () => {
  const kept: unknown[] = [];
  const steps = [
    done('other', row('1')),
    step('walk', { facts: 'half', ...row('2') }),
    done('whole', row('3')),
    done('on', row('4')),
  ];
  const set = await catchingUp(steps, async () => {
    kept.push([...(await set.store.scan('a', 'x/')).values()], set.slot.visible().isCatchingUp);
  });
  set.look();
  await set.run(undefined, 'other');
  set.look();
  await set.run();
  set.look();
  await set.run();
  set.look();
  expect(set.seen).toEqual([
    ['recalled n=0', true],
    ['other', true],
    ['whole', false],
    ['on', false],
  ]);
  expect(kept).toEqual([['3'], true]);
});

it('shows nothing that was not kept: a store that refuses it fails the round, and the next is as good', async () => {
  let refusals = 1;
  const set = await catchingUp([done('one', row('1')), done('two', row('2'))], async () => {
    refusals -= 1;
    if (refusals >= 0) throw new Error('disk full');
  });
  await set.run();
  set.look();
  expect(set.round()?.failure).toEqual({ reason: 'store', message: 'disk full' });
  await set.run();
  set.look();
  expect(set.seen).toEqual([
    ['recalled n=0', true],
    ['two', false],
  ]);
});
