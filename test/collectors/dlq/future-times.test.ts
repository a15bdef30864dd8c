import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqQuery, Reader } from '../../../src/upstream/api.ts';
import { runs } from '../../support/runs.ts';

const NOW = 1_800_000_000_000;
const SECOND = 1000;
const DAY = 86_400_000;

interface Times {
  readonly enteredAt: number;
  readonly createdAt: number;
}

/** Creates a service that compares dates with `field` and lists entries in the order of that time. */
function createService(field: keyof Times) {
  const entries: DlqEntry[] = [];
  async function* pages({ fromDate = 0, toDate = Number.POSITIVE_INFINITY, messageId }: DlqQuery) {
    const listed = entries
      .filter(entry => Number(entry[field]) >= Number(fromDate) && Number(entry[field]) <= Number(toDate))
      .filter(entry => (messageId ?? entry.messageId) === entry.messageId)
      .toSorted((a, b) => Number(a[field]) - Number(b[field]));
    for (let start = 0; start === 0 || start < listed.length; start += 100) {
      yield { rows: listed.slice(start, start + 100), rejected: 0, isLast: start + 100 >= listed.length };
    }
  }
  return {
    api: { dlqPages: (query: DlqQuery) => pages(query) } as unknown as Reader,
    add(times: Times): void {
      const id = `${times.enteredAt}-${entries.length}`;
      entries.push({ id, dlqId: id, messageId: `m-${id}`, labels: [], ...times } as unknown as DlqEntry);
    },
  };
}

function createAgent(api: Reader, fromDateMeans: string) {
  const collector = createDlq(dlq.options.parse({ fromDateMeans }));
  let memory = collector.restore(new Map());
  return {
    async round(round: string, now: number): Promise<number | undefined> {
      const { signal } = new AbortController();
      let walk: Parameters<typeof collector.observe>[0]['walk'];
      let facts: DlqFacts | undefined;
      do {
        const step = await collector.observe({ api, round, now, memory, walk, signal });
        ({ memory, facts } = step.fold(memory));
        walk = step.more;
      } while (walk !== undefined);
      return facts?.selections.get('all')?.messages;
    },
  };
}

const ahead = fc.oneof(fc.integer({ min: 1, max: 90 * SECOND }), fc.constantFrom(DAY, 365 * DAY, 70 * 365 * DAY));

it('a read for new entries finds them regardless of entries with times in the future', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('enteredAt' as const, 'createdAt' as const),
      fc.boolean(),
      fc.integer({ min: 100, max: 300 }),
      fc.array(fc.record({ ahead, isCreated: fc.boolean() }), { maxLength: 8 }),
      fc.constantFrom(1, 10, 100),
      async (field, isAuto, present, future, times) => {
        const service = createService(field);
        for (let number = 0; number < present; number += 1) {
          const createdAt = NOW - 2 * DAY + number * SECOND;
          service.add({ enteredAt: createdAt + DAY, createdAt });
        }
        const isAhead = future.flatMap(each => Array<typeof each>(times).fill(each));
        for (const { ahead, isCreated } of isAhead) {
          service.add({ enteredAt: NOW + ahead, createdAt: isCreated ? NOW + ahead : NOW - 3600 * SECOND });
        }
        const agent = createAgent(service.api, isAuto ? 'auto' : field === 'enteredAt' ? 'entry' : 'creation');
        let size = present + isAhead.length;
        expect(await agent.round('full', NOW)).toBe(size);
        // A read every five minutes does not overlap the previous one if it starts a minute ago.
        for (const minutes of [5, 10]) {
          const now = NOW + minutes * 60 * SECOND;
          for (let number = 0; number < 20; number += 1) {
            const enteredAt = now - 120 * SECOND + number * SECOND;
            service.add({ enteredAt, createdAt: enteredAt - 2 * SECOND });
          }
          size += 20;
          expect(await agent.round('new', now)).toBe(size);
        }
      },
    ),
    { numRuns: runs(60) },
  );
});

it('a read for new entries finds them after the clock was set back to a time before the newest entries', async () => {
  const service = createService('enteredAt');
  for (let number = 0; number < 150; number += 1) {
    const createdAt = NOW - DAY + number * SECOND;
    service.add({ enteredAt: createdAt + SECOND, createdAt });
  }
  service.add({ enteredAt: NOW + 1800 * SECOND, createdAt: NOW });
  const agent = createAgent(service.api, 'entry');
  expect(await agent.round('full', NOW + 3600 * SECOND)).toBe(151);
  service.add({ enteredAt: NOW - SECOND, createdAt: NOW - 2 * SECOND });
  expect(await agent.round('new', NOW)).toBe(152);
});
