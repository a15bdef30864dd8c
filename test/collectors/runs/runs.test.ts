import { describe, expect, it } from 'vitest';
import { collectOptions, createCollectors, type RunsFacts } from '../../../src/collectors/index.ts';
import type { WorkflowRun } from '../../../src/model/service.ts';
import type { ListPage, Reader, RunQuery } from '../../../src/upstream/api.ts';
import { collectOnly } from '../../support/collect.ts';

const NOW = Date.UTC(2026, 0, 1, 10);
const HOUR = 3_600_000;

const run = (runId: string, ageHours: number | undefined, state: WorkflowRun['state'] = 'started'): WorkflowRun => ({
  runId,
  state,
  createdAt: ageHours === undefined ? undefined : NOW - ageHours * HOUR,
  labels: [],
});
const page = (rows: readonly WorkflowRun[], isLast: boolean, rejected = 0): ListPage<WorkflowRun> => ({
  rows,
  rejected,
  incomplete: 0,
  isLast,
});

/** Reads these pages. Returns the facts, whether the round is partial, and the number of pages read. */
async function read(pages: readonly ListPage<WorkflowRun>[]) {
  const queries: RunQuery[] = [];
  let count = 0;
  async function* runPages(query: RunQuery) {
    queries.push(query);
    for (const each of pages) {
      count += 1;
      yield each;
    }
  }
  const [collector] = createCollectors(collectOptions.parse(collectOnly('runs')), {});
  const context = { round: 'runs', now: NOW, memory: undefined, walk: undefined, signal: new AbortController().signal };
  const observed = await collector?.observe({ ...context, api: { runPages } as unknown as Reader });
  const facts = observed?.fold(undefined).facts as RunsFacts;
  return { facts, isPartial: observed?.isPartial, pages: count, queries };
}

describe('the collector of workflow runs', () => {
  it('asks once for runs in progress that are older than the threshold', async () => {
    const { queries, pages, facts, isPartial } = await read([page([run('a', 2), run('b', 5)], false), page([], true)]);
    expect([queries, pages, isPartial]).toEqual([[{ state: 'started', toDate: NOW - HOUR }], 1, false]);
    expect(facts).toMatchObject({ count: 2, hasMore: true, oldest: { runId: 'b' } });
  });

  it.each([
    ['the state', [run('a', 2, 'success'), run('b', 3, 'failed')]],
    ['the date', [run('a', 0.5)]],
    ['both', [run('a', 0.5, 'canceled'), run('b', 0.1)]],
  ])('fails if the service ignores %s and lists no old run in progress', async (_, rows) => {
    const { length } = rows;
    await expect(read([page(rows, false)])).rejects.toMatchObject({
      name: 'FilterContradiction',
      reason: 'invalid_response',
      message: `the service ignores the parameter state or toDate: ${length} of ${length} rows do not match`,
    });
  });

  it('counts only the matching rows if the service ignores the filters, and marks the result as partial', async () => {
    const { facts, isPartial } = await read([page([run('a', 2, 'success'), run('b', 3), run('c', 0.5)], false)]);
    expect([facts.count, facts.oldest?.runId, isPartial]).toEqual([1, 'b', true]);
  });

  it.each([
    ['no row reports an age', [page([run('a', undefined)], true)]],
    ['every row has an unknown state', [page([run('a', 2, 'unknown')], true)]],
    ['a row is unreadable', [page([], true, 1)]],
  ])('reports no number if %s', async (_, pages) => {
    expect(await read(pages)).toMatchObject({ facts: { count: undefined, oldest: undefined }, isPartial: true });
  });

  it('reads at most five empty pages, and then reports the number of old runs as unknown instead of 0', async () => {
    const empty = page([], false);
    const { pages, facts, isPartial } = await read([empty, empty, empty, empty, empty, empty]);
    expect([pages, facts.count, facts.hasMore, isPartial]).toEqual([5, undefined, true, true]);
  });
});
