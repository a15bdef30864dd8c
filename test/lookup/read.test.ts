import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { List } from '../../src/lookup/lists.ts';
import { NO_PROOF } from '../../src/lookup/proof.ts';
import { readAll, readNewest } from '../../src/lookup/read.ts';
import type { ListPage, Reader } from '../../src/upstream/api.ts';
import { runs } from '../support/runs.ts';

const NO_READER = {} as Reader;
const { signal } = new AbortController();

/** Creates a list of times. If `onlyEven`, `isWanted` accepts only even times. */
function listOf(times: readonly number[], pageSize: number, onlyEven = false) {
  let read = 0;
  const list: List<number> = {
    async *pages(): AsyncGenerator<ListPage<number>> {
      for (let start = 0; start === 0 || start < times.length; start += pageSize) {
        read += 1;
        const rows = times.slice(start, start + pageSize);
        yield { rows, rejected: 0, incomplete: 0, isLast: start + pageSize >= times.length };
      }
    },
    createProof: () => NO_PROOF,
    isWanted: time => !onlyEven || time % 2 === 0,
    rank: time => time,
    id: String,
    json: time => ({ time }),
  };
  return { list, pagesRead: () => read };
}

const newestFirst = (times: readonly number[]) => times.toSorted((a, b) => b - a);

it('readNewest finds the newest matching rows, even if the service ignores the requested order', async () => {
  await fc.assert(
    fc.asyncProperty(
      // All times differ, because rows with the same time may be listed in any order.
      fc.uniqueArray(fc.integer({ min: 0, max: 1000 }), { maxLength: 60 }),
      fc.integer({ min: 1, max: 9 }),
      fc.integer({ min: 1, max: 40 }),
      fc.boolean(),
      fc.boolean(),
      async (times, pageSize, limit, isObeyed, onlyEven) => {
        const sorted = newestFirst(times);
        const { list } = listOf(isObeyed ? sorted : sorted.toReversed(), pageSize, onlyEven);
        const found = await readNewest(list, NO_READER, { limit, signal });
        const wanted = sorted.filter(list.isWanted);
        expect(found.rows).toEqual(wanted.slice(0, limit));
        expect(found.mayMissNewer).toBe(false);
        // `hasMore` may be true although no unread page contains a matching row.
        if (onlyEven) expect(found.hasMore || wanted.length <= limit).toBe(true);
        else expect(found.hasMore).toBe(times.length > limit);
      },
    ),
    { numRuns: runs(300) },
  );
});

it('readNewest reads no more pages than necessary', async () => {
  const { list, pagesRead } = listOf(newestFirst(Array.from({ length: 100 }, (_, index) => index)), 10);
  const { rows } = await readNewest(list, NO_READER, { limit: 15, signal });
  expect(rows).toHaveLength(15);
  expect(pagesRead()).toBe(2);
});

it('if the service ignores the order, readNewest stops at maxPages and reports that newer rows may be missing', async () => {
  const times = Array.from({ length: 100 }, (_, index) => index);
  const { list, pagesRead } = listOf(times, 10);
  const found = await readNewest(list, NO_READER, { limit: 5, maxPages: 3, signal });
  expect(found).toMatchObject({ rows: [29, 28, 27, 26, 25], hasMore: true, mayMissNewer: true });
  expect(pagesRead()).toBe(3);
});

it('readNewest continues while all rows have the same time, because the order is unknown', async () => {
  const { list } = listOf([5, 5, 5, 5, 6, 7], 2);
  expect((await readNewest(list, NO_READER, { limit: 2, signal })).rows).toEqual([7, 6]);
});

it('readNewest reads all pages of an oldest-first list that contains rows without a time', async () => {
  const { list } = listOf([1, 2, 0, 3, 4, 0, 5, 6, 0], 3);
  expect((await readNewest(list, NO_READER, { limit: 2, signal })).rows).toEqual([6, 5]);
});

it('readNewest finds the newest rows of an oldest-first list of 20,000 rows', async () => {
  const times = Array.from({ length: 20_000 }, (_, index) => index);
  const { list } = listOf(times, 100);
  const found = await readNewest(list, NO_READER, { limit: 3, signal });
  expect(found.rows).toEqual([19_999, 19_998, 19_997]);
});

it('readAll passes on all matching rows in the order in which the service lists them', async () => {
  const { list } = listOf([5, 4, 3, 2, 1], 2, true);
  const rows: number[] = [];
  const quality = await readAll(list, NO_READER, signal, async page => void rows.push(...page));
  expect(rows).toEqual([4, 2]);
  expect(quality).toEqual({ isProven: true, rejected: 0, incomplete: 0 });
});
