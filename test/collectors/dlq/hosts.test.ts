import fc from 'fast-check';
import { expect, it, vi } from 'vitest';
import { OTHER } from '../../../src/collectors/cap.ts';
import { hostOfDestination } from '../../../src/collectors/dlq/entered.ts';
import { runs } from '../../support/runs.ts';
import { createScene, DAY } from './entered-scene.ts';

const HOSTS = ['a', 'b', 'c', 'd', 'e'].map(name => `${name}.example`);

const sum = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((a, b) => a + b, 0);

it('the URL of a new entry is parsed once, in walks and in reads for new entries', async () => {
  const scene = createScene();
  await scene.round('full');
  scene.add(150, ...HOSTS);
  const parse = vi.spyOn(URL, 'parse');
  await scene.round('full');
  expect([scene.lines.length, parse.mock.calls.length]).toEqual([150, 150]);
  scene.add(20, ...HOSTS);
  await scene.round('new');
  expect([scene.lines.length, parse.mock.calls.length]).toEqual([170, 170]);
  parse.mockRestore();
});

it('the counts of added entries by host match the log of added entries, despite removals, concurrent reads, failures and kills', async () => {
  const rarely = (most: number) => fc.option(fc.nat(most), { freq: 1, nil: undefined });
  const action = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        add: fc.integer({ min: 1, max: 250 }),
        hosts: fc.array(fc.constantFrom(...HOSTS), { minLength: 1, maxLength: 6 }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ remove: fc.integer({ min: 1, max: 250 }) }) },
    { weight: 2, arbitrary: fc.record({ pass: fc.integer({ min: 1, max: DAY }) }) },
    {
      weight: 6,
      arbitrary: fc.record({
        round: fc.constantFrom('new', 'full', 'full'),
        failsAfter: rarely(4),
        killedAfter: rarely(6),
        readsBetween: fc.boolean(),
      }),
    },
    { weight: 1, arbitrary: fc.constant({ kill: true }) },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(2, 50),
      fc.array(action, { minLength: 5, maxLength: 40 }),
      async (maxSeriesPerBreakdown, actions) => {
        const scene = createScene({ options: { maxSeriesPerBreakdown } });
        const hosts = new Map<string, string>();
        scene.add(150);
        await scene.round('full');
        expect(scene.byHost()).toEqual({ [OTHER]: 0 });
        let before = scene.byHost();
        for (const act of actions) {
          if ('add' in act) scene.add(act.add, ...act.hosts);
          else if ('remove' in act) scene.remove(act.remove);
          else if ('pass' in act) scene.pass(act.pass);
          else if ('round' in act) {
            const { round, failsAfter, killedAfter, readsBetween } = act;
            await scene.round(round, {
              ...(failsAfter === undefined ? {} : { failsAfter }),
              ...(killedAfter === undefined ? {} : { killedAfter }),
              ...(readsBetween && round === 'full' ? { between: () => scene.round('new') } : {}),
            });
          } else scene.kill();
          for (const { id, host } of scene.queue.values()) hosts.set(id, host);
          const after = scene.byHost();
          for (const [host, count] of Object.entries(before))
            expect(after[host] ?? count).toBeGreaterThanOrEqual(count);
          expect(Object.keys(after).length).toBeLessThanOrEqual(maxSeriesPerBreakdown + 1);
          before = { ...before, ...after };
        }
        scene.kill();
        const added = scene.ids().map(id => hosts.get(id ?? '') ?? '');
        const all = [...scene.rows].filter(([key]) => key.startsWith('host/'));
        expect(all.reduce((total, [, row]) => total + JSON.parse(row).entered, 0)).toBe(added.length);
        expect(scene.facts()?.entered).toBe(added.length);
        if (maxSeriesPerBreakdown === 2) return;
        const expected = Object.fromEntries(
          [...Map.groupBy(added, host => host)].map(([host, { length }]) => [host, length]),
        );
        expect(scene.byHost()).toEqual({ ...expected, [OTHER]: 0 });
      },
    ),
    { numRuns: runs(60) },
  );
});

it('the count of a host survives the removal of its entries and the loss of its series, and continues when the host regains the series', async () => {
  const scene = createScene({ options: { maxSeriesPerBreakdown: 1 } });
  await scene.round('full');
  const add = async (count: number, host: string) => {
    scene.add(count, host);
    await scene.round('full');
    return scene.byHost();
  };
  expect(await add(3, 'a.example')).toEqual({ 'a.example': 3, [OTHER]: 0 });
  scene.remove(3);
  await scene.round('full');
  expect(await add(2, 'b.example')).toEqual({ 'a.example': 3, [OTHER]: 2 });
  scene.pass(2 * DAY);
  expect(await add(4, 'b.example')).toEqual({ 'b.example': 4, [OTHER]: 2 });
  scene.kill();
  expect(scene.byHost()).toEqual({ 'b.example': 4, [OTHER]: 2 });
  scene.pass(2 * DAY);
  expect(await add(1, 'a.example')).toEqual({ 'a.example': 4, [OTHER]: 2 });
});

it('counts by host are kept but not exposed without the breakdown by host, and are exposed once it is configured', async () => {
  const scene = createScene({ options: { breakdowns: [] } });
  await scene.round('full');
  scene.add(5);
  await scene.round('full');
  expect(scene.byHost()).toEqual({});
  const again = createScene({ rows: scene.rows });
  expect(again.byHost()).toEqual({ 'a.example': 5, [OTHER]: 0 });
  expect(sum(again.byHost())).toBe(again.facts()?.entered);
});

it.each([
  ['https://user:secret@A.example:443/x?y', 'a.example'],
  ['mailto:a@b.example', '__none__'],
  ['no address', '__none__'],
  [undefined, '__none__'],
])('the host of the destination %j is %j', (url, host) => expect(hostOfDestination({ url })).toBe(host));
