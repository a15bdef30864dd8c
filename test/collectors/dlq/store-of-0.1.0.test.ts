import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';

/** As 0.1.0 wrote them: the keys are hashes of the selection's name then, `all` or the filter's, and its `match`. */
const ROWS = {
  'selection/447ada4cc720f6fc': { entered: 7, left: { expired: 1, removed: 2, unknown: 0 }, isCounted: true },
  'selection/feb9b66afaf9af0d': { entered: 3, left: { expired: 0, removed: 1, unknown: 0 }, isCounted: true },
  queue: { meaning: 'entry', foundByRescan: 4 },
};

function restored(match: object) {
  const collector = createDlq(dlq.options.parse({ filters: [{ name: 'payments', match }] }));
  const rows = new Map(Object.entries(ROWS).map(([key, value]) => [key, JSON.stringify(value)]));
  const facts = collector.recall?.(collector.restore(rows));
  return facts && dlq.samples(facts);
}

it('goes on with its counters under their names of today', () => {
  const samples = restored({ queueName: 'payments' });
  expect(samples?.entered).toEqual([{ labels: {}, value: 7 }]);
  expect(samples?.left).toEqual([
    { labels: { reason: 'expired' }, value: 1 },
    { labels: { reason: 'removed' }, value: 2 },
    { labels: { reason: 'unknown' }, value: 0 },
  ]);
  expect(samples?.filterEntered).toEqual([{ labels: { filter: 'payments' }, value: 3 }]);
  expect(samples?.filterLeft).toContainEqual({ labels: { filter: 'payments', reason: 'removed' }, value: 1 });
  expect(samples?.foundByRescan).toEqual([{ labels: {}, value: 4 }]);
});

it('counts a filter with another match from 0', () => {
  expect(restored({ queueName: 'other' })?.filterEntered).toEqual([{ labels: { filter: 'payments' }, value: 0 }]);
});
