import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqListQuery, Reader } from '../../../src/upstream/api.ts';

const START = 1_700_000_000_000;

/** Creates a queue with unreadable rows and an agent that reads it. The queue does not change within a round. */
function setUp(page: number) {
  /** Entry times by id. */
  const letters = new Map<string, number>();
  const runs: DlqEntry[] = [];
  let now = START;
  let seq = 0;
  const service = {
    isReadable: (_id: string) => true,
    /** Number of unreadable rows in the separate read of failed workflow runs. */
    badRuns: 0,
  };
  const entryOf = ([id, enteredAt]: [string, number]) =>
    ({
      id,
      dlqId: id,
      messageId: `m-${id}`,
      enteredAt,
      createdAt: enteredAt,
      labels: [],
      responseStatus: 500,
    }) as object;

  async function* pages({ fromDate = 0, toDate = Number.POSITIVE_INFINITY, source }: DlqListQuery) {
    if (source) {
      yield { rows: runs, rejected: service.badRuns, isLast: true };
      return;
    }
    const listed = [...letters].filter(([, time]) => time >= Number(fromDate) && time <= Number(toDate));
    for (let at = 0; ; at += page) {
      const rows = listed.slice(at, at + page);
      const readable = rows.filter(([id]) => service.isReadable(id)).map(entryOf) as DlqEntry[];
      const isLast = at + page >= listed.length;
      yield { rows: readable, rejected: rows.length - readable.length, isLast };
      if (isLast) return;
    }
  }
  const api = { dlqPages: (query: DlqListQuery) => pages(query) } as unknown as Reader;
  const collector = createDlq(dlq.options.parse({ fromDateMeans: 'entry', breakdowns: ['responseStatus'] }));
  const rows = new Map<string, string>();
  let memory = collector.restore(rows);
  let facts: DlqFacts | undefined;
  return {
    letters,
    runs,
    service,
    add() {
      letters.set(`${now}-${seq}`, now);
      seq += 1;
    },
    remove(number: number) {
      letters.delete([...letters.keys()][number % Math.max(1, letters.size)] ?? '');
    },
    restart() {
      memory = collector.restore(rows);
    },
    /** Runs a round and returns whether it was partial. */
    async round(round: string): Promise<boolean> {
      let walk: Parameters<typeof collector.observe>[0]['walk'];
      let isPartial = false;
      do {
        const signal = new AbortController().signal;
        const step = await collector.observe({ api, round, now, memory, walk, signal });
        isPartial ||= step.isPartial === true;
        const folded = step.fold(memory);
        ({ memory } = folded);
        for (const { key, value } of folded.changes) value === null ? rows.delete(key) : rows.set(key, value);
        if (step.more === undefined) facts = folded.facts ?? facts;
        walk = step.more;
      } while (walk !== undefined);
      now += 30_000;
      return isPartial;
    },
    shown() {
      const { messages, entered, left } = (facts as DlqFacts).selections.get('all') ?? {};
      const values = facts?.breakdowns.get('responseStatus') ?? new Map<string, number>();
      const sum = [...values.values()].reduce((a, b) => a + b, 0);
      return { messages, sum, entered, left: Object.values(left ?? {}).reduce((a, b) => a + b, 0) };
    },
    tracked: () => facts?.tracked,
  };
}

const acts = fc.array(
  fc.oneof(
    fc.record({ add: fc.integer({ min: 1, max: 8 }) }),
    fc.record({ remove: fc.array(fc.nat(), { minLength: 1, maxLength: 8 }) }),
    fc.record({ unreadable: fc.integer({ min: 0, max: 6 }), seed: fc.nat() }),
    fc.constantFrom('new' as const, 'full' as const, 'restart' as const),
  ),
  { maxLength: 40 },
);

/** Tracks the entries that were readable in a full walk (`surely`) and in any read (`maybe`). */
function createTruth(letters: ReadonlyMap<string, number>, isReadable: (id: string) => boolean) {
  const [surely, maybe] = [new Set<string>(), new Set<string>()];
  const gone = (ids: ReadonlySet<string>) => [...ids].filter(id => !letters.has(id)).length;
  return {
    looked(round: string) {
      for (const id of letters.keys()) {
        if (!isReadable(id)) continue;
        maybe.add(id);
        if (round === 'full') surely.add(id);
      }
    },
    bounds: (first: number) => ({
      entered: [surely.size - first, maybe.size - first] as const,
      left: [gone(surely), gone(maybe)] as const,
    }),
  };
}

it.each([5, 130])(
  'shows the number of listed entries and counts added and removed ones in partial walks, starting with %i entries',
  async entries => {
    await fc.assert(
      fc.asyncProperty(acts, fc.integer({ min: 1, max: 50 }), async (script, page) => {
        const { letters, service, add, remove, round, restart, shown } = setUp(page);
        const truth = createTruth(letters, id => service.isReadable(id));
        for (let count = 0; count < entries; count += 1) add();
        async function look(kind: string) {
          truth.looked(kind);
          const isPartial = await round(kind);
          const { messages, sum, entered = 0, left = 0 } = shown();
          const { entered: came, left: went } = truth.bounds(entries);
          expect(sum).toBe(messages);
          expect(entered).toBeGreaterThanOrEqual(came[0]);
          expect(entered).toBeLessThanOrEqual(came[1]);
          expect(left).toBeLessThanOrEqual(went[1]);
          if (kind !== 'full') return isPartial;
          expect(messages).toBe(letters.size);
          if (!isPartial) expect(left).toBeGreaterThanOrEqual(went[0]);
          return isPartial;
        }
        await look('full');
        for (const act of script) {
          if (act === 'restart') restart();
          else if (typeof act === 'string') await look(act);
          else if ('add' in act) for (let count = 0; count < act.add; count += 1) add();
          else if ('remove' in act) for (const number of act.remove) remove(number);
          else service.isReadable = id => (Number(id.split('-')[1]) + act.seed) % 7 >= act.unreadable;
        }
        service.isReadable = () => true;
        expect(await look('full')).toBe(false);
      }),
      { numRuns: 300 },
    );
  },
);

it('replaces an unreadable row of the last walk with the entry that a later read finds', async () => {
  const { letters, service, add, round, shown } = setUp(50);
  for (let count = 0; count < 130; count += 1) add();
  await round('full');
  add();
  service.isReadable = id => !id.endsWith('-130');
  expect(await round('full')).toBe(true);
  expect(shown()).toMatchObject({ messages: 131, entered: 0 });
  service.isReadable = () => true;
  add();
  await round('new');
  expect(shown()).toEqual({ messages: letters.size, sum: 132, entered: 2, left: 0 });
});

it('starts counting at the first walk without unreadable rows', async () => {
  const { service, add, remove, round, shown } = setUp(50);
  for (let count = 0; count < 20; count += 1) add();
  service.isReadable = id => Number(id.split('-')[1]) > 9;
  await round('full');
  expect(shown()).toEqual({ messages: 20, sum: 20, entered: 0, left: 0 });
  service.isReadable = () => true;
  await round('full');
  add();
  remove(0);
  await round('full');
  expect(shown()).toEqual({ messages: 20, sum: 20, entered: 1, left: 1 });
});

it('reports failure callbacks as partial until a walk reads every row', async () => {
  const { runs, service, add, round, tracked } = setUp(50);
  runs.push({ id: 'w', dlqId: 'w', workflowRunId: 'r', callbackState: 'in_progress', labels: [] } as never);
  add();
  add();
  await round('full');
  expect(tracked()).toMatchObject({ isPartial: false, walks: 1, sightings: [{ snapshots: 1 }] });
  service.badRuns = 1;
  expect(await round('full')).toBe(true);
  expect(tracked()).toMatchObject({ isPartial: true, walks: 1, sightings: [{ snapshots: 1 }] });
  service.badRuns = 0;
  service.isReadable = id => !id.endsWith('-1');
  expect(await round('full')).toBe(true);
  expect(tracked()).toMatchObject({ isPartial: true, walks: 1 });
  service.isReadable = () => true;
  expect(await round('full')).toBe(false);
  expect(tracked()).toMatchObject({ isPartial: false, walks: 2, sightings: [{ snapshots: 2 }] });
});

it('keeps at most 10,000 more missing entries than there are unreadable rows', async () => {
  const { letters, service, add, round, shown } = setUp(1000);
  for (let count = 0; count < 12_000; count += 1) add();
  await round('full');
  letters.clear();
  for (let count = 0; count < 20; count += 1) add();
  service.isReadable = id => !/1\d$/.test(id);
  expect(await round('full')).toBe(true);
  // 12,000 entries are missing but 10 rows are unreadable, so 10,010 entries are kept.
  expect(shown()).toEqual({ messages: 20, sum: 20, entered: 10, left: 1990 });
});

it('reports failure callbacks as partial if only a filtered list has an unreadable row', async () => {
  let badRows = 0;
  async function* pages({ responseStatus }: DlqListQuery) {
    yield { rows: [], rejected: responseStatus === undefined ? 0 : badRows, isLast: true };
  }
  const api = { dlqPages: (query: DlqListQuery) => pages(query) } as unknown as Reader;
  const filters = [{ name: 'errors', match: { responseStatus: 500 } }];
  const collector = createDlq(dlq.options.parse({ fromDateMeans: 'entry', filters }));
  let memory = collector.restore(new Map());
  async function walk(now: number) {
    let step: Parameters<typeof collector.observe>[0]['walk'];
    do {
      const signal = new AbortController().signal;
      const seen = await collector.observe({ api, round: 'full', now, memory, walk: step, signal });
      memory = seen.fold(memory).memory;
      step = seen.more;
    } while (step !== undefined);
    return memory.callbacks.facts()?.isPartial;
  }
  expect(await walk(START)).toBe(false);
  badRows = 1;
  expect(await walk(START + 60_000)).toBe(true);
  badRows = 0;
  expect(await walk(START + 120_000)).toBe(false);
});
