import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runs } from '../../support/runs.ts';
import { createScene, DAY, START } from './entered-scene.ts';

describe('log lines for new dead letters', () => {
  it('logs each entry that is added after the first walk, but no entry of the first walk', async () => {
    const { add, remove, pass, round, lines, ids, kill } = createScene();
    add(2);
    await round('full');
    expect(lines).toEqual([]);
    pass(1000);
    add(1);
    await round('new');
    kill();
    remove(1);
    await round('full');
    add(1);
    await round('full');
    expect(ids()).toEqual([`${START + 1000}-3`, `${START + 1000}-4`]);
  });

  it('logs each added entry exactly once despite failed rounds and kills', async () => {
    const rarely = (most: number) =>
      fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.nat(most) });
    const action = fc.oneof(
      { weight: 2, arbitrary: fc.record({ add: fc.integer({ min: 1, max: 250 }) }) },
      { weight: 2, arbitrary: fc.record({ remove: fc.integer({ min: 1, max: 250 }) }) },
      { weight: 2, arbitrary: fc.record({ pass: fc.integer({ min: 1, max: DAY / 3 }) }) },
      {
        weight: 6,
        arbitrary: fc.record({
          round: fc.constantFrom('new', 'full'),
          failsAfter: rarely(4),
          killedAfter: rarely(6),
        }),
      },
      { weight: 1, arbitrary: fc.constant({ kill: true }) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 5, maxLength: 40 }), async actions => {
        const scene = createScene();
        scene.add(150);
        await scene.round('full');
        for (const act of actions) {
          if ('add' in act) scene.add(act.add);
          else if ('remove' in act) scene.remove(act.remove);
          else if ('pass' in act) scene.pass(act.pass);
          else if ('round' in act) {
            const { failsAfter, killedAfter } = act;
            await scene.round(act.round, {
              ...(failsAfter === undefined ? {} : { failsAfter }),
              ...(killedAfter === undefined ? {} : { killedAfter }),
            });
          } else scene.kill();
        }
        scene.kill();
        const ids = scene.ids();
        expect(ids).toHaveLength(scene.facts()?.entered ?? 0);
        expect(new Set(ids).size).toBe(ids.length);
        expect([ids.includes(undefined), scene.omitted()]).toEqual([false, 0]);
      }),
      { numRuns: runs(40) },
    );
  });

  it('logs at most 10,000 added entries per walk and counts the others as omitted', async () => {
    const { add, pass, round, lines, omitted, facts } = createScene({ page: 1000 });
    add(1);
    await round('full');
    pass(1000);
    add(10_300);
    await round('full');
    expect([facts()?.entered, lines.length, omitted()]).toEqual([10_300, 10_000, 300]);
  });
});
