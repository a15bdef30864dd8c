import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import { type LogRecord, MOST_RECORDS } from '../../../src/model/log-record.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqQuery, Reader } from '../../../src/upstream/api.ts';
import { runs } from '../../support/runs.ts';

const START = 1_700_000_000_000;
const DAY = 86_400_000;

interface Letter {
  readonly id: string;
  readonly enteredAt: number;
}

/** A queue, and a collector that reads it and can be killed; it keeps what was committed. */
function createScene({ page = 100 } = {}) {
  const queue = new Map<string, Letter>();
  let now = START;
  let number = 0;
  /** Requests that are answered before the service fails; none fails while it is undefined. */
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
  const collector = createDlq(dlq.options.parse({ fromDateMeans: 'entry' }), { retention: DAY, isRecorded: true });
  const rows = new Map<string, string>();
  const records: LogRecord[] = [];
  let dropped = 0;
  let memory = collector.restore(rows);
  return {
    queue,
    rows,
    records,
    dropped: () => dropped,
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
    /** `failsAfter`: requests of the round that are answered. `killedAfter`: its steps after which the process is killed. */
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
        // All of it is one commit.
        for (const { key, value } of folded.changes) value === null ? rows.delete(key) : rows.set(key, value);
        records.push(...(folded.records?.records ?? []));
        dropped += folded.records?.dropped ?? 0;
        walk = observed.more;
        if (!walk) return;
      }
    },
    facts: () => collector.recall?.(memory)?.selections.get('all'),
  };
}

/** `entered 1700000000000-1`, `left 1700000000000-1 removed`: what came and went, and whether its ids are known. */
const said = (record: LogRecord) => {
  if (record.kind === 'dlq_entered') return `entered ${record.letter?.dlqId}`;
  if (record.kind === 'dlq_left') return `left ${record.letter?.messageId} ${record.reason}`;
  return record.kind;
};
const countOf = (records: readonly LogRecord[], kind: string, reason?: string) =>
  records.filter(
    record => record.kind === kind && (reason === undefined || ('reason' in record && record.reason === reason)),
  ).length;

describe('log records of dead letters', () => {
  it('are not made of what the very first walk finds, and of each that comes or goes from then on', async () => {
    const { add, remove, pass, round, records, kill } = createScene();
    add(2);
    await round('full');
    expect(records).toEqual([]);
    pass(1000);
    add(1);
    await round('new');
    kill();
    remove(1);
    await round('full');
    pass(DAY);
    remove(1);
    await round('full');
    expect(records.map(said)).toEqual([
      `entered ${START + 1000}-3`,
      `left m-${START}-1 removed`,
      `left m-${START}-2 expired`,
    ]);
  });

  it('are as many as are counted, each with an identity and ids of its own, however rounds fail and processes are killed', async () => {
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
        const { records } = scene;
        const facts = scene.facts();
        expect(countOf(records, 'dlq_entered')).toBe(facts?.entered);
        for (const [reason, count] of Object.entries(facts?.left ?? {}))
          expect(countOf(records, 'dlq_left', reason)).toBe(count);
        expect(new Set(records.map(({ id }) => id)).size).toBe(records.length);
        expect(records.map(said).filter(text => text.includes('undefined'))).toEqual([]);
      }),
      { numRuns: runs(40) },
    );
  });

  it('are bounded: of more than wait at most, the rest is counted as dropped', async () => {
    const { add, remove, pass, round, records, dropped, rows, facts } = createScene({ page: 1000 });
    add(1);
    await round('full');
    pass(1000);
    add(MOST_RECORDS + 300);
    await round('full');
    expect([facts()?.entered, records.length + dropped()]).toEqual([MOST_RECORDS + 300, MOST_RECORDS + 300]);
    expect(records.length).toBeLessThanOrEqual(MOST_RECORDS);
    // No commit writes more than a part of what is remembered of them, and all of it comes.
    const letters = () => [...rows.keys()].filter(key => key.startsWith('letter/')).length;
    for (let each = 0; each < 25; each += 1) await round('new');
    expect(letters()).toBe(10_000);
    remove(MOST_RECORDS + 301);
    await round('full');
    for (let each = 0; each < 25; each += 1) await round('new');
    expect(letters()).toBe(0);
  });
});
