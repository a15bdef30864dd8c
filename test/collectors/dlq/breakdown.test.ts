import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { Reader } from '../../../src/upstream/api.ts';

it('a breakdown limited to one series shows the most frequent value of each walk, even if a walk has several steps', async () => {
  let counts: Readonly<Record<string, number>> = {};
  async function* dlqPages() {
    const statuses = Object.entries(counts).flatMap(([status, count]) => Array<string>(count).fill(status));
    for (const [index, status] of statuses.entries()) {
      const row = { id: `${status}-${index}`, responseStatus: Number(status), labels: [] } as unknown as DlqEntry;
      yield { rows: [row], rejected: 0, isLast: index === statuses.length - 1 };
    }
  }
  const api = { dlqPages } as unknown as Reader;
  const collector = createDlq(dlq.options.parse({ breakdowns: ['responseStatus'], maxSeriesPerBreakdown: 1 }));
  let memory = collector.restore(new Map());
  const walk = async () => {
    let rest: Parameters<typeof collector.observe>[0]['walk'];
    let facts: DlqFacts | undefined;
    let steps = 0;
    const signal = new AbortController().signal;
    do {
      const step = await collector.observe({ api, round: 'full', now: 1, memory, walk: rest, signal });
      ({ memory, facts } = step.fold(memory));
      rest = step.more;
      steps += 1;
    } while (rest !== undefined);
    expect(steps).toBeGreaterThan(4);
    return [...(facts?.breakdowns.get('responseStatus')?.keys() ?? [])];
  };
  counts = { 500: 40, 404: 20, 410: 10 };
  expect(await walk()).toEqual(['500', '__other__']);
  counts = { 500: 10, 404: 40, 410: 20 };
  expect(await walk()).toEqual(['404', '__other__']);
});
