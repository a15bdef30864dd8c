import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createFlowControl, flowControl } from '../../../src/collectors/flow-control/flow-control.ts';
import type { FlowControlEntry } from '../../../src/model/message.ts';
import type { Reader } from '../../../src/upstream/api.ts';
import { runs } from '../../support/runs.ts';

type Entries = readonly FlowControlEntry[];

/** Creates a collector that can be restarted, and a service with configurable lists. */
function setUp(options: object = {}) {
  const parsed = flowControl.options.parse(options);
  const collector = createFlowControl(parsed, { now: () => state.now });
  const rows = new Map<string, string>();
  const state = { now: 1000, rejected: 0, list: [] as Entries };
  let memory = collector.restore(new Map());
  let facts = collector.recall?.(memory);
  const api = {
    async flowControl(_signal: AbortSignal, add: (entry: FlowControlEntry) => void) {
      state.list.forEach(add);
      return state.rejected;
    },
    flowControlKey: async (key: string) => state.list.find(entry => entry.key === key) as FlowControlEntry,
  } as unknown as Reader;
  const signal = new AbortController().signal;
  const self = {
    state,
    rows,
    /** Reads a list or the watched keys, and returns its fold. */
    async read(list: Entries, { rejected = 0, round = 'list' } = {}) {
      Object.assign(state, { list, rejected, now: state.now + 1000 });
      const step = await collector.observe({ api, round, now: state.now, memory, walk: undefined, signal });
      return () => {
        const folded = step.fold(memory);
        ({ memory, facts } = folded);
        for (const { key, value } of folded.changes) {
          if (value === null) rows.delete(key);
          else rows.set(key, value);
        }
      };
    },
    async list(list: Entries, how: { rejected?: number; round?: string } = {}) {
      (await self.read(list, how))();
    },
    restart() {
      memory = collector.restore(new Map(rows));
      facts = collector.recall?.(memory);
    },
    /** Returns the counts as `KEY LIMIT COUNT`. */
    counts: () =>
      [...(facts?.limits ?? [])].flatMap(([key, limits]) =>
        Object.entries(limits).map(([limit, { changes }]) => `${key} ${limit} ${changes}`),
      ),
    last: (key: string) => facts?.limits.get(key)?.parallelism?.last,
  };
  return self;
}

const at = (parallelismLimit?: number, key = 'a'): FlowControlEntry => ({ key, waitlistSize: 0, parallelismLimit });

describe('a change of a limit', () => {
  it('a change of a limit is counted once, with both values and its time, and stays counted after a restart', async () => {
    const { list, counts, restart, last } = setUp();
    await list([at(40)]);
    await list([at(200)]);
    await list([at(200)]);
    expect(counts()).toEqual(['a parallelism 1']);
    expect(last('a')).toEqual({ from: 40, to: 200, at: 3000 });
    restart();
    expect(counts(), 'before the first read').toEqual(['a parallelism 1']);
    await list([at(200)]);
    expect(counts()).toEqual(['a parallelism 1']);
  });

  it('a change of a limit while the agent is down is counted once', async () => {
    const { list, counts, restart, last } = setUp();
    await list([at(40)]);
    restart();
    await list([at(200)]);
    await list([at(200)]);
    expect(counts()).toEqual(['a parallelism 1']);
    expect(last('a')).toEqual({ from: 40, to: 200, at: 3000 });
  });

  it('a change of a limit is not counted again by a list that was read before the change but added after it', async () => {
    const { list, read, counts } = setUp({ watch: ['a'] });
    await list([at(40)]);
    const older = await read([at(40)]);
    await list([at(200)], { round: 'watch' });
    older();
    expect(counts()).toEqual(['a parallelism 1']);
    await list([at(200)]);
    await list([at(200)], { round: 'watch' });
    expect(counts()).toEqual(['a parallelism 1']);
  });
});

it.each([
  ['the service omits the limit once', [[at()]]],
  ['the key disappears', [[], []]],
  ['the list is empty, then partial', [[], [at(7, 'b')]]],
])('a limit is unchanged if %s and it returns with the same value', async (_what, between) => {
  for (const rejected of [0, 1]) {
    const { list, counts } = setUp();
    await list([at(40)]);
    for (const each of between as Entries[]) await list(each, { rejected });
    await list([at(40)]);
    expect(counts()).toContain('a parallelism 0');
  }
});

it('the counters of an unlisted key remain only if they are not 0 and maxSeries is not exceeded', async () => {
  const { list, counts } = setUp({ maxSeries: 2 });
  await list([at(1), at(1, 'b')]);
  await list([at(2), at(1, 'b')]);
  await list([at(1, 'b')]);
  expect(counts()).toEqual(['b parallelism 0', 'a parallelism 1']);
  await list([at(1, 'b'), at(1, 'c')]);
  expect(counts()).toEqual(['b parallelism 0', 'c parallelism 0']);
});

const limits = fc.record({
  parallelismLimit: fc.constantFrom(undefined, 1, 2),
  rateLimit: fc.constantFrom(undefined, 10, 20),
  ratePeriodSeconds: fc.constantFrom(undefined, 60),
});
const read = fc.record({
  keys: fc.dictionary(fc.constantFrom('a', 'b', 'c'), limits, { noNullPrototype: true }),
  rejected: fc.constantFrom(0, 0, 1),
  isLost: fc.boolean(),
  restarts: fc.boolean(),
});

it('changes of limits are counted exactly despite restarts, uncommitted reads and partial lists', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(read, { maxLength: 20 }), async reads => {
      const agent = setUp();
      const known = new Map<string, number>();
      const expected = new Map<string, number>();
      for (const { keys, rejected, isLost, restarts } of reads) {
        const entries = Object.entries(keys).map(([key, each]) => ({ key, waitlistSize: 1, ...each }));
        const fold = await agent.read(entries, { rejected });
        // The agent is killed before it commits the read.
        if (isLost) {
          agent.restart();
          continue;
        }
        fold();
        for (const { key, parallelismLimit, rateLimit, ratePeriodSeconds } of entries) {
          const reported = { parallelism: parallelismLimit, rate: rateLimit, period: ratePeriodSeconds };
          for (const [limit, value] of Object.entries(reported)) {
            if (value === undefined) continue;
            const name = `${key} ${limit}`;
            const before = known.get(name);
            expected.set(name, (expected.get(name) ?? 0) + Number(before !== undefined && before !== value));
            known.set(name, value);
          }
        }
        if (restarts) agent.restart();
      }
      const counts = agent.counts();
      const changed = [...expected].filter(([, changes]) => changes > 0);
      // Keys without changes have counters only while they are listed.
      expect(counts).toEqual(expect.arrayContaining(changed.map(([name, changes]) => `${name} ${changes}`)));
      expect([...expected].map(([name, changes]) => `${name} ${changes}`)).toEqual(expect.arrayContaining(counts));
    }),
    { numRuns: runs(500) },
  );
});
