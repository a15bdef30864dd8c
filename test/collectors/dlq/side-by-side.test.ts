import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqQuery, Reader } from '../../../src/upstream/api.ts';

const NOW = 1_700_000_000_000;

/** Creates an agent that can pause between reading a step and folding it. `ids`: the queue, newest first. */
function setUp(ids: string[], refuse: (query: DlqQuery) => void = () => {}, filters: object[] = []) {
  async function* dlqPages(query: DlqQuery) {
    refuse(query);
    const listed = ids.filter(id => (query.messageId ?? id) === id);
    for (let at = 0; ; at += 100) {
      const isLast = at + 100 >= listed.length;
      const rows = listed.slice(at, at + 100).map(
        id =>
          ({
            id,
            messageId: id,
            createdAt: NOW - 2000,
            enteredAt: NOW - 1000,
            labels: [],
          }) as unknown as DlqEntry,
      );
      yield { rows, rejected: 0, isLast };
      if (isLast) return;
    }
  }
  const api = { dlqPages } as unknown as Reader;
  const collector = createDlq(dlq.options.parse({ filters }));
  let memory = collector.restore(new Map());
  let facts: DlqFacts | undefined;
  async function* steps(round: string): AsyncGenerator<void, void> {
    let walk: Parameters<typeof collector.observe>[0]['walk'];
    do {
      const signal = new AbortController().signal;
      const step = await collector.observe({ api, round, now: NOW, memory, walk, signal });
      yield;
      const folded = step.fold(memory);
      ({ memory } = folded);
      facts = folded.facts ?? facts;
      walk = step.more;
    } while (walk !== undefined);
  }
  return {
    steps,
    async round(name: string) {
      for await (const _step of steps(name));
    },
    shown(selection = 'all') {
      const { messages, entered, left } = facts?.selections.get(selection) ?? {};
      return { messages, entered, left: left && Object.values(left).reduce((a, b) => a + b, 0) };
    },
  };
}

const queue = (entries: number) => Array.from({ length: entries }, (_, index) => `m${index}`);

it('completes a walk if the fromDate probe is rejected, and repeats the probe in the next walk', async () => {
  const probes: unknown[] = [];
  const agent = setUp(queue(3), ({ messageId }) => {
    if (messageId === undefined) return;
    probes.push(messageId);
    throw Object.assign(new Error('no such question'), { reason: 'refused' });
  });
  await agent.round('full');
  expect(agent.shown()).toEqual({ messages: 3, entered: 0, left: 0 });
  await agent.round('full');
  expect(probes).toHaveLength(2);
});

it.each([1, 2, 3, 4])(
  'keeps an entry that a concurrent read adds between reading and folding step %d of a walk',
  async step => {
    const ids = queue(150);
    const agent = setUp(ids);
    await agent.round('full');
    const walk = agent.steps('full');
    for (let count = 0; count < step; count += 1) await walk.next();
    ids.unshift('new');
    await agent.round('new');
    expect(agent.shown()).toEqual({ messages: 151, entered: 1, left: 0 });
    for await (const _step of walk);
    expect(agent.shown()).toEqual({ messages: 151, entered: 1, left: 0 });
    await agent.round('full');
    expect(agent.shown()).toEqual({ messages: 151, entered: 1, left: 0 });
  },
);

it.each([1, 2, 3, 4, 5, 6, 7, 8])(
  'shows entries found by a read of a small queue even if a walk starts before step %d of that read',
  async step => {
    const ids = queue(3);
    const agent = setUp(ids, undefined, [{ name: 'errors', match: { responseStatus: 500 } }]);
    await agent.round('full');
    ids.unshift('new');
    const look = agent.steps('new');
    for (let count = 1; count < step; count += 1) await look.next();
    const walk = agent.steps('full');
    // Runs the first step and its fold.
    await walk.next();
    await walk.next();
    for await (const _step of look);
    const found = { messages: 4, entered: 1, left: 0 };
    expect([agent.shown(), agent.shown('errors')]).toEqual([found, found]);
    for await (const _step of walk);
    expect([agent.shown(), agent.shown('errors')]).toEqual([found, found]);
    await agent.round('full');
    expect([agent.shown(), agent.shown('errors')]).toEqual([found, found]);
  },
);
