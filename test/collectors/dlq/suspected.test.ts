import fc from 'fast-check';
import { expect, it } from 'vitest';
import { evaluate } from '../../../src/auto-cancel/evaluate.ts';
import { autoCancelRule } from '../../../src/auto-cancel/options.ts';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import { isSuspected } from '../../../src/model/callback.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { Reader } from '../../../src/upstream/api.ts';
import { samplesBy } from '../../support/samples.ts';

const HOUR = 3_600_000;
const START = Date.UTC(2026, 6, 1);
/** Just above the default minimum age of a stuck callback: 1.5 × (30.7 h of waits + 6 attempts of 15 min) = 48.2 h. */
const LONG = 49 * HOUR;

/** Returns the facts after complete walks at these times. */
async function factsOf(rows: readonly Partial<DlqEntry>[], times: readonly number[]) {
  const unreported = [{ match: { queue: { in: ['blind'] } }, except: {} }];
  const collector = createDlq(dlq.options.parse({}), { callbacks: { unreported, maxGap: LONG } });
  const entries = rows.map((row, index) => ({ id: `${index}`, labels: [], ...row }) as unknown as DlqEntry);
  const api = {
    async *dlqPages() {
      yield { rows: entries, rejected: 0, isLast: true };
    },
  } as unknown as Reader;
  let memory = collector.restore(new Map());
  let facts = collector.recall?.(memory);
  for (const now of times) {
    let walk: Parameters<typeof collector.observe>[0]['walk'];
    do {
      const signal = new AbortController().signal;
      const step = await collector.observe({ api, round: 'full', now, memory, walk, signal });
      const folded = step.fold(memory);
      memory = folded.memory;
      facts = folded.facts ?? facts;
      walk = step.more;
    } while (walk !== undefined);
  }
  return facts as NonNullable<typeof facts>;
}

/** Returns the number of suspected callbacks and the value of the gauge for the oldest callback in progress. */
async function valuesOf(rows: readonly Partial<DlqEntry>[], times = [START, START + LONG]) {
  const facts = await factsOf(rows, times);
  const { suspected, oldestInProgress } = samplesBy(dlq, facts);
  return { suspected: suspected[0]?.value, oldestInProgress: oldestInProgress[0]?.value };
}

const inProgress = { callbackState: 'in_progress' as const };

it.each([
  ['no state is reported', undefined, undefined, [{}, { queue: 'blind' }]],
  ['no callback is in progress', 0, undefined, [{ callbackState: 'fail' as const }]],
  ['two callbacks are in progress', 2, START / 1000, [inProgress, inProgress, {}]],
])(
  'if %s, the number of suspected callbacks is %s, and the oldest one in progress started at %s',
  async (_, suspected, oldestInProgress, rows) => {
    expect(await valuesOf(rows)).toEqual({ suspected, oldestInProgress });
  },
);

it('callbacks are evaluated as of the last walk that listed them', async () => {
  const hours = (count: number) => valuesOf([inProgress], [START, START + count * HOUR]);
  expect((await hours(48)).suspected).toBe(0);
  expect((await hours(49)).suspected).toBe(1);
  expect((await valuesOf([inProgress], [START])).suspected).toBe(0);
});

it('the number of suspected callbacks is undefined before the first complete walk', async () => {
  expect((await valuesOf([inProgress], [])).suspected).toBeUndefined();
});

it('a callback is suspected exactly if an auto-cancel rule with default times would find it stuck', () => {
  const rule = autoCancelRule.parse({ name: 'default', match: { url: { prefix: ['https:'] } } });
  const row = { id: '1', labels: [], url: 'https://a.example' } as unknown as DlqEntry;
  fc.assert(
    fc.property(
      fc.constantFrom('in_progress' as const, 'fail' as const, 'unknown' as const, undefined),
      fc.option(fc.oneof(fc.nat(12), fc.constantFrom(5.5, -1)), { nil: undefined }),
      fc.oneof(fc.nat(400 * HOUR), fc.integer({ min: 47 * HOUR, max: 50 * HOUR })),
      (callbackState, maxRetries, seenFor) => {
        const entry = { ...row, callbackState, maxRetries };
        const sighting = { entry, firstSeenAt: START, lastSeenAt: START + seenFor, snapshots: 9, episode: 'e' };
        const seen = { sighting, id: '1', lastEventAt: undefined, askedAt: START + seenFor };
        expect(isSuspected(sighting)).toBe(evaluate(rule, seen).verdict === 'stuck');
      },
    ),
  );
});
