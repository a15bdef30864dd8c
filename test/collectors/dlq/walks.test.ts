import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqQuery, Reader } from '../../../src/upstream/api.ts';
import { runs } from '../../support/runs.ts';

interface Letter {
  readonly id: string;
  readonly enteredAt: number;
  readonly createdAt: number;
  readonly queue: string;
  readonly seq: number;
}

interface Shape {
  readonly page: number;
  readonly order: 'up' | 'down' | 'mixed';
  readonly means: 'entry' | 'creation';
}

const START = 1_700_000_000_000;

/** Creates a queue that may change between any two pages. */
function createQueue({ page, order, means }: Shape) {
  const letters = new Map<string, Letter>();
  const clock = { now: START };
  let seq = 0;
  let requests = 0;
  /** Called before each page. */
  let beforePage = () => {};
  /** Entries present at any time, and at all times, since the last `watch`. */
  let ever = new Set<string>();
  let always = new Set<string>();

  const timeOf = (letter: Letter) => (means === 'entry' ? letter.enteredAt : letter.createdAt);
  const rank = (letter: Letter) =>
    order === 'mixed' ? (letter.seq * 7919) % 1009 : order === 'up' ? timeOf(letter) : -timeOf(letter);
  async function* pages({ fromDate = 0, toDate = Number.POSITIVE_INFINITY, queueName, messageId }: DlqQuery) {
    let after: Letter | undefined;
    for (;;) {
      await new Promise<void>(resolve => setImmediate(resolve));
      requests += 1;
      beforePage();
      const place = after;
      const listed = [...letters.values()]
        .filter(letter => timeOf(letter) >= Number(fromDate) && timeOf(letter) <= Number(toDate))
        .filter(({ queue, id }) => (queueName ?? queue) === queue && (messageId ?? `m-${id}`) === `m-${id}`)
        .toSorted((a, b) => rank(a) - rank(b) || a.seq - b.seq)
        .filter(
          letter => !place || rank(letter) > rank(place) || (rank(letter) === rank(place) && letter.seq > place.seq),
        );
      const rows = listed.slice(0, page);
      after = rows.at(-1);
      const isLast = listed.length <= page;
      const entry = ({ id, enteredAt, createdAt, queue }: Letter) =>
        ({ id, dlqId: id, messageId: `m-${id}`, enteredAt, createdAt, queue, labels: [] }) as unknown as DlqEntry;
      yield { rows: rows.map(entry), rejected: 0, isLast };
      if (isLast) return;
    }
  }
  return {
    api: { dlqPages: (query: DlqQuery) => pages(query) } as unknown as Reader,
    clock,
    letters,
    requests: () => requests,
    onPage(change: () => void) {
      beforePage = change;
    },
    add(age: number, retries: number, queue: string) {
      const enteredAt = Math.max(1, clock.now - age);
      const id = `${enteredAt}-${seq}`;
      letters.set(id, { id, enteredAt, createdAt: Math.max(0, enteredAt - retries), queue, seq });
      seq += 1;
      ever.add(id);
    },
    remove(number: number) {
      const id = [...letters.keys()][number % Math.max(1, letters.size)];
      if (id === undefined) return;
      letters.delete(id);
      always.delete(id);
    },
    watch() {
      ever = new Set(letters.keys());
      always = new Set(letters.keys());
    },
    bounds(queue?: string) {
      // The queue name of an entry never changes, so it can be looked up by id.
      const count = (ids: Set<string>) =>
        [...ids].filter(id => queue === undefined || queueOf.get(id) === queue).length;
      return [count(always), count(ever)] as const;
    },
  };
}
/** Queue name by id, for all entries ever added. */
const queueOf = new Map<string, string>();

function createAgent(api: Reader, clock: { now: number }, options: object) {
  const parsed = dlq.options.parse(options);
  const collector = createDlq(parsed);
  const rows = new Map<string, string>();
  let memory = collector.restore(new Map(rows));
  let shown: DlqFacts | undefined;
  return {
    facts: () => shown as DlqFacts,
    rows,
    parsed,
    kill() {
      memory = collector.restore(new Map(rows));
    },
    /** Runs a round and aborts it after `steps` steps, as if it had failed. Committed rows survive. */
    async round(round: string, steps = Number.POSITIVE_INFINITY): Promise<boolean> {
      const now = clock.now;
      let walk: Parameters<typeof collector.observe>[0]['walk'];
      for (let step = 0; step < steps; step += 1) {
        const signal = new AbortController().signal;
        const done = await collector.observe({ api, round, now, memory, walk, signal });
        const folded = done.fold(memory);
        memory = folded.memory;
        for (const { key, value } of folded.changes) {
          if (value === null) rows.delete(key);
          else rows.set(key, value);
        }
        if (done.more === undefined) {
          if (folded.facts) shown = folded.facts;
          return true;
        }
        walk = done.more;
      }
      return false;
    },
  };
}

const shape = fc.record({
  // With small pages, the queue has enough pages to be read in windows.
  page: fc.oneof(fc.integer({ min: 1, max: 2 }), fc.integer({ min: 1, max: 30 })),
  order: fc.constantFrom('up' as const, 'down' as const, 'mixed' as const),
  means: fc.constantFrom('entry' as const, 'creation' as const),
});
/** Age of an entry (ms). Many entries have the same age, most are recent, and some are weeks old. */
const age = fc.oneof(fc.constantFrom(0, 5, 5000), fc.nat(3_600_000), fc.nat(40 * 86_400_000));
const letter = fc.tuple(age, fc.nat(100_000), fc.constantFrom('a', 'b'));

it('the queue size lies between the number of entries present throughout a walk and the number present at any time during it', {
  timeout: 120_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      shape,
      fc.array(letter, { maxLength: 300 }),
      fc.array(
        fc.record({
          round: fc.constantFrom('full', 'full', 'new', 'kill', 'give up'),
          changes: fc.array(fc.oneof(letter, fc.nat(1000)), { maxLength: 12 }),
          during: fc.boolean(),
          wait: fc.nat(100_000),
        }),
        { minLength: 1, maxLength: 12 },
      ),
      async (shape, letters, rounds) => {
        const queue = createQueue(shape);
        const add = ([age, retries, name]: [number, number, string]) => {
          queue.add(age, retries, name);
          for (const { id, queue: each } of [...queue.letters.values()].slice(-1)) queueOf.set(id, each);
        };
        for (const each of letters) add(each);
        const agent = createAgent(queue.api, queue.clock, { filters: [{ name: 'b', match: { queueName: 'b' } }] });
        let before: { entered: number; left: number } | undefined;
        await agent.round('full');
        const initial = agent.facts().selections.get('all')?.messages ?? 0;
        for (const { round, changes, during, wait } of rounds) {
          queue.clock.now += wait;
          const left = [...changes];
          const change = () => {
            const next = left.shift();
            if (typeof next === 'number') queue.remove(next);
            else if (next) add(next);
          };
          queue.onPage(during ? change : () => {});
          if (!during) while (left.length > 0) change();
          queue.watch();
          if (round === 'kill') agent.kill();
          const isComplete = await agent.round(
            round === 'new' ? 'new' : 'full',
            round === 'give up' ? 2 : Number.POSITIVE_INFINITY,
          );
          const { selections, breakdowns } = agent.facts();
          const all = selections.get('all');
          const sum = (values: Iterable<number>) => [...values].reduce((a, b) => a + b, 0);
          const gone = sum(Object.values(all?.left ?? {}));
          expect(all?.entered).toBeGreaterThanOrEqual(before?.entered ?? 0);
          expect(gone).toBeGreaterThanOrEqual(before?.left ?? 0);
          before = { entered: all?.entered ?? 0, left: gone };
          if (!isComplete) continue;
          expect(all?.messages).toBe(initial + before.entered - gone);
          expect(sum(breakdowns.get('urlHost')?.values() ?? [])).toBe(all?.messages);
          if (round === 'new') continue;
          const [least, most] = queue.bounds();
          expect(all?.messages).toBeGreaterThanOrEqual(least);
          expect(all?.messages).toBeLessThanOrEqual(most);
          const [leastB, mostB] = queue.bounds('b');
          expect(selections.get('b')?.messages).toBeGreaterThanOrEqual(leastB);
          expect(selections.get('b')?.messages).toBeLessThanOrEqual(mostB);
          if (during) continue;
          expect(all?.messages).toBe(queue.letters.size);
        }
      },
    ),
    { numRuns: runs(150) },
  );
});
