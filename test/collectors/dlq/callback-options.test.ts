import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';

it('the collector walks the queue at the interval that rules require, and omits reads for new entries if they would not be more frequent than walks', () => {
  const options = dlq.options.parse({ every: '30s', rescanEvery: '10m' });
  const everyOf = (walkEvery: number | undefined) => {
    const { full, new: look } = createDlq(options, {
      callbacks: { unreported: [], maxGap: 1000, walkEvery },
    }).rounds;
    return [full?.every, look?.every];
  };
  expect(everyOf(undefined)).toEqual([600_000, 30_000]);
  expect(everyOf(300_000)).toEqual([300_000, 30_000]);
  expect(everyOf(30_000)).toEqual([30_000, undefined]);
});
