import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LOG_STATES, type LogState } from '../../src/emulator/message.ts';
import { type Emulator, type EmulatorOptions, startEmulator } from '../../src/emulator/server.ts';
import { lateBy } from '../../src/emulator/world.ts';
import { handClock, NOON, type Parameters, pages } from './emulated.ts';

const SEED = 7;

const share = fc.oneof(fc.constantFrom(0, 1), fc.double({ min: 0.05, max: 0.95, noNaN: true }));
const event = fc.record({
  // A small range of times and messages, so that many events differ only in their body.
  time: fc.integer({ min: -60, max: 0 }).map(steps => NOON + steps * 100),
  messageId: fc.integer({ min: 0, max: 20 }).map(String),
  state: fc.constantFrom<LogState>(...LOG_STATES),
});
const dialect = fc.record({
  logLateShare: share,
  logLateMs: fc.integer({ min: 0, max: 5000 }),
  logDuplicates: share,
  cursorSeam: fc.constantFrom('exact', 'repeats'),
  eventsMost: fc.constantFrom(1000, 100),
  order: fc.constantFrom('obeyed', 'ignored'),
  lastCursor: fc.constantFrom('absent', 'empty'),
});
const request = fc.record({
  count: fc.oneof(fc.integer({ min: 1, max: 9 }), fc.constant(5000)),
  order: fc.constantFrom('earliestFirst', 'latestFirst'),
  from: fc.integer({ min: -6500, max: 0 }),
  to: fc.integer({ min: -6500, max: 0 }),
});

interface Row {
  readonly time: string;
  readonly messageId: string;
  readonly state: string;
  /** Distinguishes otherwise identical events. */
  readonly body: string;
}

async function withEmulator(
  options: NonNullable<EmulatorOptions['dialect']>,
  run: (emulated: Emulator) => Promise<void>,
): Promise<void> {
  const emulated = await startEmulator({
    clock: handClock(),
    speed: 0,
    seed: SEED,
    history: 0,
    dlqEntries: 0,
    dialect: options,
  });
  try {
    await run(emulated);
  } finally {
    await emulated.close();
  }
}

/** Returns every page of a walk. Throws if the walk does not end. */
async function pagesOf(emulated: Emulator, parameters: Parameters, between?: () => void): Promise<Row[][]> {
  const found: Row[][] = [];
  for await (const rows of pages(emulated, 'events', parameters, between)) {
    found.push(rows);
    if (found.length > 1000) throw new Error('the walk does not end');
  }
  return found;
}

const bodies = (rows: readonly Row[]) => new Set(rows.map(row => row.body));

test('a walk ends and returns exactly the listed events; after the longest delay, it also returns all delayed events', async () => {
  const property = fc.asyncProperty(
    dialect,
    request,
    fc.array(event, { maxLength: 60 }),
    async (options, { count, order, from, to }, events) => {
      await withEmulator(options, async emulated => {
        const { state, clock } = emulated;
        state.addEvents(events.map((each, index) => ({ ...each, body: String(index) })));
        const parameters: Parameters = [
          ['fromDate', String(NOON + from)],
          ['toDate', String(NOON + to)],
          ['order', order],
          ['count', String(count)],
        ];
        const inRange = state
          .eventRows()
          .filter(row => Number(row.time) >= NOON + from && Number(row.time) <= NOON + to);

        const found = await pagesOf(emulated, parameters);
        const due = (row: Row) =>
          Number(row.time) +
          lateBy(
            SEED,
            { message: { messageId: row.messageId }, state: row.state as LogState },
            Number(row.time),
            options,
          );
        const listed = inRange.filter(row => due(row) <= NOON);
        expect(bodies(found.flat())).toEqual(bodies(listed));
        checkPages(found, Math.min(count, options.eventsMost), options);
        const times = found.flat().map(row => Number(row.time));
        const isEarliestFirst = options.order === 'obeyed' && order === 'earliestFirst';
        expect(times).toEqual(times.toSorted((a, b) => (isEarliestFirst ? a - b : b - a)));

        // Delayed events may become listed during a walk.
        const between = await pagesOf(emulated, parameters, () => clock.advance(100));
        expect(bodies(between.flat()).isSupersetOf(bodies(listed))).toBe(true);
        expect(bodies(between.flat()).isSubsetOf(bodies(inRange))).toBe(true);

        clock.advance(options.logLateMs);
        const later = await pagesOf(emulated, parameters);
        expect(bodies(later.flat())).toEqual(bodies(inRange));
        checkPages(later, Math.min(count, options.eventsMost), options);
      });
    },
  );
  await fc.assert(property, { numRuns: 80 });
});

/** Checks the length of pages and the number of occurrences of each row. */
function checkPages(
  found: readonly Row[][],
  most: number,
  { cursorSeam, logDuplicates }: { readonly cursorSeam: string; readonly logDuplicates: number },
): void {
  const repeats = cursorSeam === 'repeats';
  const fresh = found.flatMap((rows, page) => {
    if (page < found.length - 1) expect(rows.length).toBe(repeats && page > 0 ? Math.max(most, 2) : most);
    if (!repeats || page === 0) return rows;
    expect(rows[0]).toEqual(found[page - 1]?.at(-1));
    return rows.slice(1);
  });
  const runs: number[] = [];
  for (const [index, { body }] of fresh.entries()) {
    if (fresh[index - 1]?.body === body) runs[runs.length - 1] = (runs.at(-1) as number) + 1;
    else runs.push(1);
  }
  expect(runs.length).toBe(bodies(fresh).size);
  for (const times of runs) {
    expect(times).toBeLessThanOrEqual(logDuplicates > 0 ? 2 : 1);
    if (logDuplicates === 1) expect(times).toBe(2);
  }
}
