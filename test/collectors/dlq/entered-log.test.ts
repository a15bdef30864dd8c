import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { LogLine } from '../../../src/kit/log.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqQuery, Reader } from '../../../src/upstream/api.ts';
import { runs } from '../../support/runs.ts';

const START = 1_700_000_000_000;
const DAY = 86_400_000;

interface Letter {
  readonly id: string;
  readonly enteredAt: number;
}

/** Creates a queue and a collector that can be killed. Committed rows survive. */
function createScene({ page = 100 } = {}) {
  const queue = new Map<string, Letter>();
  let now = START;
  let number = 0;
  /** Number of successful requests before the service fails; undefined if it never fails. */
  let answers: number | undefined;
  async function* dlqPages({ fromDate = 0 }: DlqQuery) {
    const listed = [...queue.values()].filter(({ enteredAt }) => enteredAt >= Number(fromDate));
    for (let from = 0; ; from += page) {
      if (answers !== undefined && answers-- <= 0) throw new Error('the service fails');
      const rows = listed
        .slice(from, from + page)
        .map(
          ({ id, enteredAt }) =>
            ({ id, dlqId: id, messageId: `m-${id}`, enteredAt, labels: [] }) as unknown as DlqEntry,
        );
      const isLast = from + page >= listed.length;
      yield { rows, rejected: 0, isLast };
      if (isLast) return;
    }
  }
  const api = { dlqPages } as unknown as Reader;
  const collector = createDlq(dlq.options.parse({ fromDateMeans: 'entry' }), { retention: DAY, isLogged: true });
  const rows = new Map<string, string>();
  const lines: LogLine[] = [];
  let omitted = 0;
  let memory = collector.restore(rows);
  return {
    queue,
    rows,
    lines,
    omitted: () => omitted,
    ids: () => lines.map(({ fields }) => (fields as { dlqId?: string }).dlqId),
    add(count: number) {
      for (let each = 0; each < count; each += 1) {
        number += 1;
        const letter = { id: `${now}-${number}`, enteredAt: now };
        queue.set(letter.id, letter);
      }
    },
    remove(count: number) {
      for (const id of [...queue.keys()].slice(0, count)) queue.delete(id);
    },
    pass(ms: number) {
      now += ms;
    },
    kill() {
      memory = collector.restore(new Map(rows));
    },
    /**
     * Runs a round. `failsAfter`: number of requests that succeed. `killedAfter`: number of steps before the process is
     * killed.
     */
    async round(round: string, { failsAfter, killedAfter }: { failsAfter?: number; killedAfter?: number } = {}) {
      answers = failsAfter;
      let walk: Parameters<typeof collector.observe>[0]['walk'];
      for (let step = 0; ; step += 1) {
        if (step === killedAfter) return this.kill();
        const signal = new AbortController().signal;
        const observed = await collector.observe({ api, round, now, memory, walk, signal }).catch(() => undefined);
        if (!observed || observed.idle) return;
        const folded = observed.fold(memory);
        memory = folded.memory;
        // Rows and log lines share one commit.
        for (const { key, value } of folded.changes) value === null ? rows.delete(key) : rows.set(key, value);
        lines.push(...(folded.log?.lines ?? []));
        omitted += folded.log?.omitted ?? 0;
        walk = observed.more;
        if (!walk) return;
      }
    },
    facts: () => collector.recall?.(memory)?.selections.get('all'),
  };
}

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
