import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Roster } from '../../../src/collectors/dlq/roster.ts';
import { hash64 } from '../../../src/kit/hash.ts';
import { runs } from '../../support/runs.ts';

/** Writes the changed chunks to `rows`, like a store. */
function save(roster: Roster, rows: Map<number, string>): void {
  for (const number of roster.drainTouched()) {
    const text = roster.chunk(number);
    if (text === undefined) rows.delete(number);
    else rows.set(number, text);
  }
}

/** Ids, some of which collide. */
const id = fc.oneof(
  fc.nat(40).map(n => BigInt(n) << 32n),
  fc.nat(40).map(n => BigInt(n) * 64n),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
);

it('a roster contains all entries that were seen and not removed, with their marks, even after a restart', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.record({ see: fc.array(id, { maxLength: 100 }), isKept: fc.boolean() }),
          fc.constant({ keep: true }),
          fc.constant({ drop: true }),
          fc.constant({ clearMarks: true }),
          fc.constant({ removeUnmarked: true }),
          fc.constant({ restart: true }),
        ),
        { maxLength: 30 },
      ),
      actions => {
        let roster = new Roster();
        const rows = new Map<number, string>();
        const model = new Map<bigint, { since: number; marked: boolean; isNew: boolean }>();
        const isNew = (id: bigint) => model.get(id)?.isNew === true;
        let now = 1_700_000_000;
        const removeFromModel = (isRemoved: (id: bigint) => boolean) => {
          const gone = [...model].filter(([id]) => isRemoved(id));
          for (const [id] of gone) model.delete(id);
          return gone.map(([, { since }]) => since).sort();
        };
        for (const action of actions) {
          now += 1;
          const removed: number[] = [];
          const onRemoved = (since: number) => void removed.push(since);
          if ('see' in action) {
            for (const id of action.see) {
              const known = model.get(id);
              const { isKept } = action;
              const seen = known?.marked ? 'again' : 'known';
              const expected = known === undefined ? 'first' : known.isNew && isKept ? 'kept' : seen;
              expect(roster.see(id, now * 1000 + 999, isKept)).toBe(expected);
              model.set(id, {
                since: known?.since ?? now * 1000,
                marked: true,
                isNew: !isKept && (known?.isNew ?? true),
              });
            }
          } else if ('clearMarks' in action) {
            roster.clearMarks();
            for (const entry of model.values()) entry.marked = false;
          } else if ('removeUnmarked' in action) {
            roster.removeUnmarked(onRemoved);
            expect(removed.sort()).toEqual(removeFromModel(id => model.get(id)?.marked === false && !isNew(id)));
          } else if ('keep' in action) {
            const kept = roster.keepNewcomers();
            const all = [...model.keys()].filter(isNew).length;
            expect(kept).toBe(all);
            for (const entry of model.values()) Object.assign(entry, entry.isNew ? { isNew: false, marked: true } : {});
          } else if ('drop' in action) {
            roster.dropNewcomers();
            removeFromModel(isNew);
          } else {
            save(roster, rows);
            roster = new Roster(rows);
            removeFromModel(isNew);
            for (const entry of model.values()) entry.marked = true;
          }
          expect(roster.size).toBe([...model.keys()].filter(id => !isNew(id)).length);
          expect([...model.keys()].every(id => roster.has(id))).toBe(true);
        }
        save(roster, rows);
        removeFromModel(isNew);
        const again = new Roster(rows);
        expect(again.size).toBe(model.size);
        for (const id of model.keys()) expect(again.see(id, 0, true)).toBe('again');
      },
    ),
    { numRuns: runs(300) },
  );
});

it('a roster of 100,000 entries writes only changed chunks', () => {
  const roster = new Roster();
  const rows = new Map<number, string>();
  const ids = Array.from({ length: 100_000 }, (_, index) => hash64(`dlq-${index}`));
  for (const id of ids) roster.see(id, 1_700_000_000_000, true);
  save(roster, rows);
  expect(rows.size).toBe(25);
  roster.clearMarks();
  for (const id of ids.filter((_, index) => index !== 777)) roster.see(id, 0, false);
  roster.removeUnmarked(() => undefined);
  expect(roster.drainTouched()).toHaveLength(1);
  expect(roster.size).toBe(99_999);
});

it('a roster that drops 300,000 new entries retains the known ones and writes nothing', () => {
  const roster = new Roster();
  const rows = new Map<number, string>();
  for (let index = 0; index < 5000; index += 1) roster.see(hash64(`known-${index}`), 1_700_000_000_000, true);
  save(roster, rows);
  const before = new Map(rows);
  for (let index = 0; index < 300_000; index += 1) roster.see(hash64(`new-${index}`), 0, false);
  expect([roster.size, roster.drainTouched()]).toEqual([5000, []]);
  roster.dropNewcomers();
  expect([roster.size, roster.drainTouched()]).toEqual([5000, []]);
  expect([0, 1].map(number => roster.chunk(number))).toEqual([...before.values()]);
  expect([roster.has(hash64('known-4999')), roster.has(hash64('new-0'))]).toEqual([true, false]);
});
