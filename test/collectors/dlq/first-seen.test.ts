import { expect, it } from 'vitest';
import { AGENT_TIME } from '../../../src/collectors/collector.ts';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { Reader } from '../../../src/upstream/api.ts';

const START = 1_700_000_000_000;

it('uses the time of the first sighting as the entry time of an entry that lacks one, even in later walks and after a restart', async () => {
  let ids = ['a'];
  async function* dlqPages() {
    yield { rows: ids.map(id => ({ id, labels: [] }) as unknown as DlqEntry), rejected: 0, isLast: true };
  }
  const api = { dlqPages } as unknown as Reader;
  const collector = createDlq(dlq.options.parse({}));
  const rows = new Map<string, string>();
  let memory = collector.restore(rows);
  async function round(round: string, now: number) {
    let walk: Parameters<typeof collector.observe>[0]['walk'];
    let facts: DlqFacts | undefined;
    do {
      const signal = new AbortController().signal;
      const step = await collector.observe({ api, round, now, memory, walk, signal });
      const folded = step.fold(memory);
      ({ memory, facts } = folded);
      for (const { key, value } of folded.changes) value === null ? rows.delete(key) : rows.set(key, value);
      walk = step.more;
    } while (walk !== undefined);
    return facts?.selections.get('all')?.oldestEntered;
  }
  expect(await round('full', START)).toBe(START);
  ids = ['a', 'b'];
  expect(await round('new', START + 60_000)).toBe(START);
  expect(await round('full', START + 600_000)).toBe(START);
  memory = collector.restore(rows);
  expect(await round('full', START + 1_200_000)).toBe(START);
  ids = ['b'];
  expect(await round('full', START + 1_800_000)).toBe(START + 60_000);
});

it.each([600_000, -600_000])(
  'first sightings and expiry are by the clock of the service, which is %d ms ahead',
  async ahead => {
    let ids = ['a', 'b'];
    async function* dlqPages() {
      yield { rows: ids.map(id => ({ id, labels: [] }) as unknown as DlqEntry), rejected: 0, isLast: true };
    }
    const api = { dlqPages } as unknown as Reader;
    const serviceClock = { ...AGENT_TIME, at: (time: number) => time + ahead };
    const collector = createDlq(dlq.options.parse({}), { retention: 3_600_000, serviceClock });
    let memory = collector.restore(new Map());
    async function walk(now: number) {
      let walk: Parameters<typeof collector.observe>[0]['walk'];
      do {
        const { signal } = new AbortController();
        const step = await collector.observe({ api, round: 'full', now, memory, walk, signal });
        memory = step.fold(memory).memory;
        walk = step.more;
      } while (walk !== undefined);
      return collector.recall?.(memory)?.selections.get('all');
    }
    expect(await walk(START)).toMatchObject({ oldestEntered: START + ahead });
    ids = ['b'];
    expect(await walk(START + 3_599_999)).toMatchObject({ left: { expired: 0, removed: 1 } });
    ids = [];
    expect(await walk(START + 3_600_000)).toMatchObject({ left: { expired: 1, removed: 1 } });
  },
);
