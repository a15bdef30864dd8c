import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqQuery, Reader } from '../../../src/upstream/api.ts';

const NOW = 1_700_000_000_000;
/** All rows share one text, so that the test itself needs little memory. */
const URL_OF_2_MIB = 'x'.repeat(2 ** 20);
const PAGES = 70;
const TOO_LARGE = 'the queue has more than 268435456 bytes';

/** Creates a queue of `PAGES` pages, each with two rows of 2 MiB, and its agent. */
async function setUp() {
  /** `recent`: pages of reads with dates; `requests`: number of listed pages; `held`: most pages held between two steps. */
  const service = { recent: 0, requests: 0, held: 0 };
  async function* dlqPages({ fromDate }: DlqQuery) {
    const pages = fromDate === undefined ? PAGES : service.recent;
    for (let page = 1; page <= pages; page += 1) {
      service.requests += 1;
      const name = fromDate === undefined ? 'old' : 'new';
      const rows = [`${name}${page}a`, `${name}${page}b`].map(
        id => ({ id, enteredAt: NOW - 1000, labels: [], url: URL_OF_2_MIB }) as unknown as DlqEntry,
      );
      yield { rows, rejected: 0, incomplete: 0, isLast: page === pages };
    }
  }
  const api = { dlqPages } as unknown as Reader;
  const collector = createDlq(dlq.options.parse({ fromDateMeans: 'entry' }));
  let memory = collector.restore(new Map());
  let facts: DlqFacts | undefined;
  async function round(round: string) {
    let walk: Parameters<typeof collector.observe>[0]['walk'];
    do {
      const { signal } = new AbortController();
      const step = await collector.observe({ api, round, now: NOW, memory, walk, signal });
      const folded = step.fold(memory);
      ({ memory } = folded);
      facts = folded.facts ?? facts;
      walk = step.more;
      service.held = Math.max(service.held, walk?.walk.pending.length ?? 0);
    } while (walk !== undefined);
  }
  await round('full');
  return { service, round, messages: () => facts?.selections.get('all')?.messages };
}

it('a walk over rows of 280 MiB succeeds and holds no pages between its steps', async () => {
  const { service, messages } = await setUp();
  expect([messages(), service.held]).toEqual([2 * PAGES, 0]);
});

it('a read for new entries succeeds if it holds less than 256 MiB', async () => {
  const { service, round, messages } = await setUp();
  service.recent = 63;
  await round('new');
  expect([messages(), service.held]).toEqual([2 * (PAGES + 63), 63]);
});

it('an endless read for new entries fails once it holds 256 MiB, and is not repeated before the next walk', async () => {
  const { service, round, messages } = await setUp();
  service.recent = Number.POSITIVE_INFINITY;
  service.requests = 0;
  await expect(round('new')).rejects.toThrow(TOO_LARGE);
  await expect(round('new')).rejects.toThrow(TOO_LARGE);
  expect([messages(), service.requests]).toEqual([2 * PAGES, 64]);
  service.recent = 1;
  await round('full');
  await round('new');
  expect(messages()).toBe(2 * (PAGES + 1));
});
