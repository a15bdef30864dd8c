import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqListQuery, Reader } from '../../../src/upstream/api.ts';
import { UpstreamError } from '../../../src/upstream/errors.ts';
import { toDlqEntry } from '../../../src/upstream/wire.ts';

/** Rows of a page in the syntax of `rowsOf`, or the error of its request. */
type Answer = string | UpstreamError;

/**
 * Creates rows from words. `m1` is a message; `w1` is a workflow run with a callback in progress, `w1:success` with a
 * finished one, `w1:none` without one.
 */
function rowsOf(words: string): DlqEntry[] {
  return words.split(' ').flatMap(word => {
    const [dlqId = '', state = 'inprogress'] = word.split(':');
    if (dlqId === '') return [];
    const run = dlqId.startsWith('w') ? { workflowRunId: `wfr_${dlqId}` } : {};
    const info = run.workflowRunId && state !== 'none' ? { failureFunctionState: `CALLBACK_${state}` } : {};
    return [toDlqEntry({ dlqId, ...run, ...info }, 0) as DlqEntry];
  });
}

function createAgent(section: object = {}) {
  const collector = createDlq(dlq.options.parse(section));
  let memory = collector.restore(new Map());
  let calls = 0;
  let answers: { plain: readonly Answer[]; workflows: readonly Answer[] } = { plain: [], workflows: [] };
  async function* pages({ source, queueName }: DlqListQuery) {
    const list = queueName ? ['w9'] : source ? answers.workflows : answers.plain;
    for (const [index, answer] of list.entries()) {
      if (source) calls += 1;
      if (answer instanceof Error) throw answer;
      yield { rows: rowsOf(answer), rejected: 0, isLast: index === list.length - 1 };
    }
  }
  const api = { dlqPages: (query: DlqListQuery) => pages(query) } as unknown as Reader;
  return async (plain: readonly Answer[], workflows: readonly Answer[], now = 0, round = 'full') => {
    answers = { plain, workflows };
    calls = 0;
    let walk: Parameters<typeof collector.observe>[0]['walk'];
    let facts: DlqFacts | undefined;
    do {
      const before = calls;
      const signal = new AbortController().signal;
      const step = await collector.observe({ api, round, now, memory, walk, signal });
      expect(calls - before).toBeLessThanOrEqual(10);
      ({ memory, facts } = step.fold(memory));
      walk = step.more;
    } while (walk !== undefined);
    const tracked = facts?.tracked?.sightings.map(({ entry, snapshots }) => `${entry.id}x${snapshots}`);
    return [calls, tracked?.sort().join(' '), facts?.selections.get('all')?.messages] as const;
  };
}

const pagesOf = (count: number) => Array.from({ length: count }, (_, page) => `w${page} w${page}s:success`);
const idsOf = (count: number) =>
  Array.from({ length: count }, (_, page) => `w${page}x1`)
    .sort()
    .join(' ');

it.each<[what: string, plain: string[], workflows: string[], calls: number, tracked: string, messages: number]>([
  ['ignores the filter', ['m1 w1', 'm2 w2'], ['m1 w1', 'm2 w2'], 1, 'w1x1 w2x1', 4],
  ['ignores the filter while an entry is added', ['m1 w1', 'm2'], ['w1 m3', 'm1', 'm2'], 1, 'w1x1', 3],
  ['lists the same entries again', ['m1 w1', 'm2 w2 w3:none'], ['w1 w3:none', 'w2'], 1, 'w1x1 w2x1', 5],
  ['lists no runs', ['m1'], [''], 1, '', 1],
  ['lists runs only in this read', ['m1 m2'], ['w1 w2:success', 'w3:fail', 'w4'], 3, 'w1x1 w4x1', 2],
  ['lists runs only in this read and reports no state', ['m1'], ['w1:none', 'w2:none', 'w3'], 3, 'w3x1', 1],
  ['returns no page', ['w1'], [], 0, 'w1x1', 1],
  ['lists many pages', ['m1'], pagesOf(25), 25, idsOf(25), 1],
  ['returns empty pages first', ['m1'], ['', '', 'w1', 'w2'], 4, 'w1x1 w2x1', 1],
  ['lists some runs only in this read', ['m1 w1'], ['w1 w2', 'w1', 'w3'], 3, 'w1x1 w2x1 w3x1', 2],
  ['reports states only in this read', ['m1 w1:none w2:none'], ['w1 w2:success', 'w3'], 2, 'w1x1 w3x1', 3],
  ['reports a changed state', ['w1 w2'], ['w1:success w2'], 1, 'w2x1', 2],
])(
  'tracks failure callbacks with a separate read of failed workflow runs if the service %s',
  async (_, plain, workflows, ...found) => {
    expect(await createAgent()(plain, workflows)).toEqual(found);
  },
);

it('requests failed workflow runs at the end of a walk, but not in rounds for new entries', async () => {
  const observe = createAgent();
  const broken = new UpstreamError('server', 'GET /v2/dlq: status 500');
  await expect(observe(['m1', broken], ['w1'])).rejects.toBe(broken);
  expect(await observe(['m1'], ['w1'])).toEqual([1, 'w1x1', 1]);
  expect(await observe(['m1 w2'], ['w1 w3'], 0, 'new')).toEqual([0, 'w1x1', 2]);
});

it('ignores callbacks that are listed only for a filter', async () => {
  const observe = createAgent({ filters: [{ name: 'payments', match: { queueName: 'payments' } }] });
  expect(await observe(['m1 w1'], [''])).toEqual([1, 'w1x1', 2]);
});

it.each([
  new UpstreamError('refused', 'GET /v2/dlq: status 400', { status: 400 }),
  new UpstreamError('not_found', 'GET /v2/dlq: status 404', { status: 404 }),
])('tracks the callbacks of the queue if the service rejects the read of failed workflow runs: %s', async refusal => {
  const observe = createAgent();
  for (let walk = 1; walk <= 3; walk += 1) expect(await observe(['m1 w1'], [refusal])).toEqual([1, `w1x${walk}`, 2]);
  expect(await observe(['w1'], ['w2'])).toEqual([1, 'w1x4 w2x1', 1]);
});

it.each<[string, UpstreamError, string[]]>([
  ['fails temporarily', new UpstreamError('server', 'status 500', { status: 500 }), []],
  ['rejects the token', new UpstreamError('unauthorized', 'status 401', { status: 401 }), []],
  ['receives no request', new UpstreamError('refused', 'not sent'), []],
  ['rejects the second page', new UpstreamError('refused', 'status 400', { status: 400 }), ['w1:success w9']],
])('keeps earlier callback facts if the service %s during a walk', async (_, failure, pages) => {
  const observe = createAgent();
  expect(await observe(['w1'], [''])).toEqual([1, 'w1x1', 1]);
  // The queue's own gauges are still updated.
  expect(await observe(['w1 w2'], [...pages, failure])).toEqual([pages.length + 1, 'w1x1', 2]);
  expect(await observe(['w1 w2'], [''])).toEqual([1, 'w1x2 w2x1', 2]);
});

it('fails the round if it is stopped during the read of failed workflow runs', async () => {
  const stopped = new Error('stopped') as UpstreamError;
  await expect(createAgent()(['w1'], [stopped])).rejects.toBe(stopped);
});
