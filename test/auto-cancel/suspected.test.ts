import { expect, it } from 'vitest';
import { suspectedCallbacks } from '../../src/auto-cancel/callbacks.ts';
import { createDlq, dlq } from '../../src/collectors/dlq/dlq.ts';
import type { CallbackFacts } from '../../src/model/callback.ts';
import type { DlqEntry } from '../../src/model/message.ts';
import { createSuspectedSource } from '../../src/status/account-metrics.ts';
import type { Reader } from '../../src/upstream/api.ts';
import { dlqFacts } from '../support/shown-facts.ts';

const HOUR = 3_600_000;
const START = Date.UTC(2026, 6, 1);
/** Just above the default minimum age of a stuck callback: 1.5 × (30.7 h of waits + 6 attempts of 15 min) = 48.2 h. */
const LONG = 49 * HOUR;

/** Returns the facts after complete walks at these times. */
async function factsOf(rows: readonly Partial<DlqEntry>[], times: readonly number[]) {
  const track = ({ queue }: DlqEntry) => queue === 'blind';
  const collector = createDlq(dlq.options.parse({}), { callbacks: { track, maxGap: LONG } });
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
  const [oldest] = dlq.samples(facts).oldestInProgress ?? [];
  return { suspected: suspectedCallbacks(facts.tracked), oldestInProgress: oldest?.value };
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

it('the number of suspected callbacks is undefined before the first complete walk', () => {
  expect(suspectedCallbacks(dlqFacts({}).tracked)).toBeUndefined();
});

it('the gauge of suspected callbacks has no sample without data, and a new revision after each walk', async () => {
  let facts: ReturnType<typeof dlqFacts> | undefined;
  const source = createSuspectedSource('a', () => facts);
  const family = 'delivery_dlq_failure_callbacks_suspected';
  const shown = () => [source.revision(), source.samples().get(family)] as const;
  expect(shown()).toEqual([undefined, []]);
  facts = await factsOf([inProgress], [START, START + LONG]);
  expect(shown()).toEqual([facts.tracked as CallbackFacts, [{ labels: {}, value: 1 }]]);
  facts = dlqFacts({});
  expect(shown()).toEqual([undefined, []]);
});
