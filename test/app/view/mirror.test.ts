import { expect, it } from 'vitest';
import { createMirror } from '../../../src/app/view/mirror.ts';
import type { Replicas } from '../../../src/store/store.ts';
import { createManualClock } from '../../support/manual-clock.ts';

it('waits a second for a database that hangs, once, however many ask', async () => {
  const clock = createManualClock();
  const hangs = Promise.withResolvers<ReadonlyMap<string, string>>();
  let asked = 0;
  const replicas: Replicas = {
    self: { id: 'one', url: 'http://one', since: 0 },
    leaseTime: 15_000,
    renew: async () => ({ gained: [], lost: [], excess: [] }),
    release: async () => undefined,
    leave: async () => undefined,
    remaining: () => 0,
    sharing: () => undefined,
  };
  const store = {
    scan: async () => new Map<string, string>(),
    valuesOf: () => {
      asked += 1;
      return hangs.promise;
    },
  };
  const { look } = createMirror({ replicas, store, clock });
  const answered: string[] = [];
  const ask = (name: string) => look().then(() => answered.push(name));
  const first = ask('first');
  await clock.advance(600);
  const second = ask('second');
  await clock.advance(399);
  expect(answered).toEqual([]);
  await clock.advance(1);
  await Promise.all([first, second]);
  await ask('third');
  expect(answered).toEqual(['first', 'second', 'third']);
  expect(asked).toBe(1);
  hangs.resolve(new Map());
  await clock.advance(5000);
  await look();
  expect(asked).toBe(2);
  expect(clock.sleepers).toBe(0);
});
