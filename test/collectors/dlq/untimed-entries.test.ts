import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqQuery, Reader } from '../../../src/upstream/api.ts';

const NOW = 1_800_000_000_000;
const MINUTE = 60_000;
const PAGE = 10;

/** Times that an entry reports: of creation, of entry, or none. */
type Times = 'both' | 'creation' | 'entry' | 'none';

/** Creates a service that omits entries without the compared time from every request with dates. */
function createService(field: 'enteredAt' | 'createdAt') {
  const entries: DlqEntry[] = [];
  const counts = { requests: 0, dated: 0 };
  async function* pages({ fromDate, toDate }: DlqQuery) {
    const isWithin = (time: number | undefined) =>
      time !== undefined && time >= Number(fromDate ?? 0) && time <= Number(toDate ?? Number.POSITIVE_INFINITY);
    const isDated = fromDate !== undefined || toDate !== undefined;
    const listed = entries.filter(entry => !isDated || isWithin(entry[field]));
    for (let start = 0; start === 0 || start < listed.length; start += PAGE) {
      counts.requests += 1;
      if (isDated) counts.dated += 1;
      yield { rows: listed.slice(start, start + PAGE), rejected: 0, isLast: start + PAGE >= listed.length };
    }
  }
  return {
    api: { dlqPages: (query: DlqQuery) => pages(query) } as unknown as Reader,
    counts,
    get size() {
      return entries.length;
    },
    add(times: Times): void {
      const id = `d${entries.length}`;
      const at = NOW - 3 * 86_400_000 + entries.length * MINUTE;
      const createdAt = times === 'both' || times === 'creation' ? at : undefined;
      const enteredAt = times === 'both' || times === 'entry' ? at + MINUTE : undefined;
      entries.push({ id, dlqId: id, labels: [], createdAt, enteredAt } as unknown as DlqEntry);
    },
    removeFirst: () => void entries.shift(),
  };
}

function createAgent(api: Reader, options: object = {}) {
  const collector = createDlq(dlq.options.parse(options));
  let memory = collector.restore(new Map());
  let now = NOW;
  return {
    async walk() {
      const { signal } = new AbortController();
      now += 10 * MINUTE;
      let walk: Parameters<typeof collector.observe>[0]['walk'];
      let facts: DlqFacts | undefined;
      do {
        const step = await collector.observe({ api, round: 'full', now, memory, walk, signal });
        ({ memory, facts } = step.fold(memory));
        walk = step.more;
      } while (walk !== undefined);
      const all = facts?.selections.get('all');
      const left = Object.values(all?.left ?? {}).reduce((sum, count) => sum + count, 0);
      return { messages: all?.messages, entered: all?.entered, left };
    },
  };
}

const PLACES: readonly [string, (index: number, size: number) => boolean][] = [
  ['every tenth entry', index => index % 10 === 3],
  ['only one entry in the middle', (index, size) => index === Math.floor(size / 2)],
  ['the first entries', index => index < 30],
  ['the last entries', (index, size) => index >= size - 30],
  ['all entries', () => true],
];
/** Which times the other entries lack, by the time that the service compares. */
const FIELDS: readonly ['enteredAt' | 'createdAt', Times][] = [
  ['createdAt', 'none'],
  ['createdAt', 'entry'],
  ['enteredAt', 'none'],
  ['enteredAt', 'creation'],
];

it.each(FIELDS.flatMap(([field, times]) => PLACES.map(([where, isUntimed]) => ({ field, times, where, isUntimed }))))(
  'every walk counts all entries if the service compares $field and $where reported times: $times',
  async ({ field, times, isUntimed }) => {
    const service = createService(field);
    const size = 1200;
    for (let index = 0; index < size; index += 1) service.add(isUntimed(index, size) ? times : 'both');
    const agent = createAgent(service.api, { fromDateMeans: field === 'enteredAt' ? 'entry' : 'creation' });
    for (let walk = 0; walk < 8; walk += 1) {
      expect(await agent.walk()).toEqual({ messages: size, entered: 0, left: 0 });
    }
  },
);

it('entries without a time, added after windowed walks, are found within six walks and never counted as removed', async () => {
  const service = createService('createdAt');
  for (let index = 0; index < 1200; index += 1) service.add('both');
  const agent = createAgent(service.api);
  for (let walk = 0; walk < 3; walk += 1) await agent.walk();
  service.add('none');
  service.add('none');
  let found = 0;
  while (found < 6 && (await agent.walk()).messages !== service.size) found += 1;
  expect(found).toBeLessThan(6);
  for (let walk = 0; walk < 8; walk += 1) {
    expect(await agent.walk()).toEqual({ messages: service.size, entered: 2, left: 0 });
  }
});

it('walks of a large queue use windows, need few more requests than the queue has pages, and still find removals', async () => {
  const service = createService('createdAt');
  const size = 2000;
  for (let index = 0; index < size; index += 1) service.add('both');
  const agent = createAgent(service.api);
  let windowed = 0;
  for (let walk = 0; walk < 12; walk += 1) {
    const before = { ...service.counts };
    service.removeFirst();
    const { messages, left } = await agent.walk();
    expect([messages, left]).toEqual([service.size, walk]);
    if (service.counts.dated > before.dated) windowed += 1;
    // The workflow runs take one request.
    const least = Math.ceil(service.size / PAGE) + 1;
    expect(service.counts.requests - before.requests).toBeLessThanOrEqual(least * 1.07);
  }
  expect(windowed).toBe(10);
});
