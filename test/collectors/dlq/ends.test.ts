import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import { createEnds } from '../../../src/collectors/dlq/ends.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqListQuery, Reader } from '../../../src/upstream/api.ts';
import { toDlqEntry } from '../../../src/upstream/wire.ts';
import { runs } from '../../support/runs.ts';

const START = 1_700_000_000_000;

interface EnteredEntry {
  readonly id: string;
  readonly at: number;
}

/** Reference implementation: sorts all entries. */
function sorted(all: readonly EnteredEntry[]) {
  const inOrder = [...all].sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1)).map(({ id }) => id);
  return { longest: inOrder.slice(0, 10), newest: inOrder.toReversed().slice(0, 10) };
}

/** Creates a queue of rows in the service's format and an agent that reads it. */
function setUp(pageSize = 3) {
  const queue = new Map<string, { readonly row: object; readonly at: number | undefined }>();
  let now = START;
  async function* pages({ fromDate = 0, toDate = Number.POSITIVE_INFINITY, source }: DlqListQuery) {
    const isListed = ({ at = now }) => !source && at >= Number(fromDate) && at <= Number(toDate);
    const rows = [...queue.values()].filter(isListed).map(({ row }) => toDlqEntry(row, now) as DlqEntry);
    for (let at = 0; at === 0 || at < rows.length; at += pageSize)
      yield { rows: rows.slice(at, at + pageSize), rejected: 0, incomplete: 0, isLast: at + pageSize >= rows.length };
  }
  const api = { dlqPages: (query: DlqListQuery) => pages(query) } as unknown as Reader;
  const collector = createDlq(dlq.options.parse({ fromDateMeans: 'entry' }));
  let memory = collector.restore(new Map());
  let facts = collector.recall?.(memory) as DlqFacts;
  return {
    queue,
    facts: () => facts,
    now: () => now,
    async round(round: string): Promise<void> {
      now += 1000;
      let walk: Parameters<typeof collector.observe>[0]['walk'];
      do {
        const step = await collector.observe({ api, round, now, memory, walk, signal: new AbortController().signal });
        const folded = step.fold(memory);
        ({ memory } = folded);
        facts = folded.facts ?? facts;
        walk = step.more;
      } while (walk !== undefined);
    },
  };
}

describe('oldest and newest entries', () => {
  it('createEnds finds the same oldest and newest entries as a sort, in any order of arrival', () => {
    const entries = fc.uniqueArray(
      fc.record({ id: fc.integer({ min: 0, max: 999 }).map(String), at: fc.integer({ min: START, max: START + 40 }) }),
      { selector: ({ id }) => id, maxLength: 100, size: 'max' },
    );
    fc.assert(
      fc.property(entries, all => {
        const ends = createEnds();
        for (const { id, at } of all) ends.add(toDlqEntry({ dlqId: id }, 0) as DlqEntry, at);
        const shown = { longest: ends.longest(), newest: ends.newest() };
        expect({
          longest: shown.longest.map(({ dlqId }) => dlqId),
          newest: shown.newest.map(({ dlqId }) => dlqId),
        }).toEqual(sorted(all));
        const timeOf = new Map(all.map(({ id, at }) => [id, at]));
        for (const { dlqId = '', enteredAt } of [...shown.longest, ...shown.newest])
          expect(enteredAt).toBe(timeOf.get(dlqId));
      }),
    );
  });

  it('the oldest and newest entries include entries found between walks and omit entries that a walk no longer lists', async () => {
    const act = fc.oneof(
      fc.record({ does: fc.constant('enter' as const), late: fc.nat(30_000), isTimed: fc.boolean() }),
      fc.record({ does: fc.constant('leave' as const), which: fc.nat(60) }),
      fc.record({ does: fc.constant('walk' as const) }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(act, { maxLength: 60, size: 'max' }),
        fc.integer({ min: 1, max: 40 }),
        async (acts, pageSize) => {
          const { queue, round, facts, now } = setUp(pageSize);
          const seen = new Map<string, number>();
          let count = 0;
          await round('full');
          for (const each of acts) {
            if (each.does === 'leave') queue.delete([...queue.keys()][each.which % Math.max(1, queue.size)] ?? '');
            if (each.does === 'enter') {
              count += 1;
              const at = each.isTimed ? now() - each.late : undefined;
              const dlqId = at === undefined ? `x${count}` : `${at}-${count}`;
              queue.set(dlqId, { row: { dlqId }, at });
              await round('new');
              // An entry without a time counts as entered at the current round, or at the time in the roster (whole seconds).
              seen.set(dlqId, at ?? now());
            }
            if (each.does !== 'enter') await round('full');
            const all = [...queue.keys()].map(id => ({ id, at: seen.get(id) ?? Number.NaN }));
            const { longest, newest } = facts();
            expect({ longest: longest.map(l => l.dlqId), newest: newest.map(l => l.dlqId) }).toEqual(sorted(all));
            expect([...longest, ...newest].map(l => l.enteredAt)).toEqual(
              [...longest, ...newest].map(l => seen.get(l.dlqId ?? '')),
            );
          }
        },
      ),
      { numRuns: runs(30) },
    );
  });

  it('the collector returns no oldest or newest entries before the first walk', async () => {
    const { queue, round, facts } = setUp();
    queue.set('a', { row: { messageId: 'a' }, at: undefined });
    expect(facts()).toMatchObject({ newest: [], longest: [] });
    await round('full');
    expect(facts()).toMatchObject({ newest: [{ messageId: 'a' }], longest: [{ messageId: 'a' }] });
  });

  it('the oldest and newest entries contain each message’s destination and failure, but no possible secrets', async () => {
    const { queue, round, facts } = setUp();
    const row = {
      dlqId: `${START}-1`,
      messageId: 'msg_1',
      createdAt: START - 5000,
      url: 'https://user:hidden@api.example.com/jobs/1?token=hidden#hidden',
      method: 'POST',
      topicName: 'jobs',
      queueName: 'nightly',
      scheduleId: 'scd_1',
      labels: ['first', 'second'],
      responseStatus: 503,
      responseBody: 'hidden',
      responseHeader: { hidden: ['hidden'] },
      header: { Authorization: ['hidden'] },
      body: 'hidden',
      callerIP: 'hidden',
      failureCallbackInfo: { state: 'CALLBACK_INPROGRESS', responseBody: 'hidden' },
    };
    queue.set('1', { row, at: START });
    await round('full');
    expect(facts().newest).toEqual([
      {
        dlqId: `${START}-1`,
        messageId: 'msg_1',
        enteredAt: START,
        createdAt: START - 5000,
        url: 'https://api.example.com/jobs/1',
        method: 'POST',
        responseStatus: 503,
        queue: 'nightly',
        topic: 'jobs',
        schedule: 'scd_1',
        labels: ['first', 'second'],
        callbackState: 'in_progress',
      },
    ]);
    expect(facts().longest).toEqual(facts().newest);
    expect(JSON.stringify(facts().newest)).not.toContain('hidden');
  });

  it('the oldest and newest entries contain truncated texts if a hostile service sends overlong ones', async () => {
    const { queue, round, facts } = setUp(100);
    const long = 'x'.repeat(100_000);
    for (let at = 0; at < 60; at += 1) {
      const url = `https://a.example/${at}/${long}`;
      const names = { url, method: long, topicName: long, queueName: long, scheduleId: long, labels: [long] };
      queue.set(String(at), { row: { dlqId: `${at}${long}`, messageId: long, ...names }, at: undefined });
    }
    await round('full');
    const { newest, longest } = facts();
    expect([newest.length, longest.length]).toEqual([10, 10]);
    expect(newest[0]).toMatchObject({ dlqId: undefined, messageId: undefined });
    expect(JSON.stringify([newest, longest]).length).toBeLessThan(20 * 2500);
  });
});
