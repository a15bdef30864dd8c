import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createRoster, type Roster } from '../../../src/collectors/dead-letters/roster.ts';
import { hash64 } from '../../../src/kit/hash64.ts';

/** What a store would hold. */
function save(roster: Roster, rows: Map<number, string>): void {
  for (const number of roster.takeTouched()) {
    const text = roster.chunk(number);
    if (text === undefined) rows.delete(number);
    else rows.set(number, text);
  }
}

/** Ids that collide in the table, as far as that is possible, and others. */
const id = fc.oneof(
  fc.nat(40).map(n => BigInt(n) << 32n),
  fc.nat(40).map(n => BigInt(n) * 64n),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
);

it('knows whoever was seen and not taken out, marks and restarts included', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          fc.record({ see: fc.array(id, { maxLength: 100 }) }),
          fc.constant({ clearMarks: true }),
          fc.constant({ removeUnmarked: true }),
          fc.constant({ restart: true }),
        ),
        { maxLength: 30 },
      ),
      actions => {
        let roster = createRoster();
        const rows = new Map<number, string>();
        const model = new Map<bigint, { since: number; marked: boolean }>();
        let now = 1_700_000_000;
        const goes = (whoGoes: (id: bigint) => boolean) => {
          const gone = [...model].filter(([id]) => whoGoes(id));
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
              const expected = known === undefined ? 'first' : known.marked ? 'again' : 'known';
              expect(roster.see(id, now * 1000 + 999)).toBe(expected);
              model.set(id, { since: known?.since ?? now * 1000, marked: true });
            }
          } else if ('clearMarks' in action) {
            roster.clearMarks();
            for (const entry of model.values()) entry.marked = false;
          } else if ('removeUnmarked' in action) {
            roster.removeUnmarked(onRemoved);
            expect(removed.sort()).toEqual(goes(id => model.get(id)?.marked === false));
          } else {
            save(roster, rows);
            roster = createRoster(rows);
            for (const entry of model.values()) entry.marked = true;
          }
          expect(roster.size).toBe(model.size);
        }
        save(roster, rows);
        const again = createRoster(rows);
        expect(again.size).toBe(model.size);
        for (const id of model.keys()) expect(again.see(id, 0)).toBe('again');
      },
    ),
    { numRuns: 300 },
  );
});

it('holds a hundred thousand in chunks, of which it writes only those that change', () => {
  const roster = createRoster();
  const rows = new Map<number, string>();
  const ids = Array.from({ length: 100_000 }, (_, index) => hash64(`dlq-${index}`));
  for (const id of ids) roster.see(id, 1_700_000_000_000);
  save(roster, rows);
  expect(rows.size).toBe(25);
  roster.clearMarks();
  for (const id of ids.filter((_, index) => index !== 777)) roster.see(id, 0);
  roster.removeUnmarked(() => undefined);
  expect(roster.takeTouched()).toHaveLength(1);
  expect(roster.size).toBe(99_999);
});
