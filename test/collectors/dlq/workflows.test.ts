import { expect, it } from 'vitest';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/facts.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import type { DlqListQuery, Reader } from '../../../src/upstream/api.ts';
import { UpstreamError } from '../../../src/upstream/errors.ts';
import { toDlqEntry } from '../../../src/upstream/wire.ts';

/** A page: rows as words, or the failure of asking for it. */
type Answer = string | UpstreamError;

/** `m1` is a message, `w1` a workflow run whose callback is in progress, `w1:success` one where it is not, `w1:none` one without. */
function rowsOf(words: string): DlqEntry[] {
  return words.split(' ').flatMap(word => {
    const [dlqId = '', state = 'inprogress'] = word.split(':');
    if (dlqId === '') return [];
    const run = dlqId.startsWith('w') ? { workflowRunId: `wfr_${dlqId}` } : {};
    const info = run.workflowRunId && state !== 'none' ? { failureFunctionState: `CALLBACK_${state}` } : {};
    return [toDlqEntry({ dlqId, ...run, ...info }) as DlqEntry];
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
  ['takes no notice of the question', ['m1 w1', 'm2 w2'], ['m1 w1', 'm2 w2'], 1, 'w1x1 w2x1', 4],
  ['takes none, and somebody came meanwhile', ['m1 w1', 'm2'], ['w1 m3', 'm1', 'm2'], 1, 'w1x1', 3],
  ['lists the same again', ['m1 w1', 'm2 w2 w3:none'], ['w1 w3:none', 'w2'], 1, 'w1x1 w2x1', 5],
  ['lists nothing', ['m1'], [''], 1, '', 1],
  ['lists them nowhere else', ['m1 m2'], ['w1 w2:success', 'w3:fail', 'w4'], 3, 'w1x1 w4x1', 2],
  ['lists them nowhere else, and tells no state', ['m1'], ['w1:none', 'w2:none', 'w3'], 3, 'w3x1', 1],
  ['answers without a page', ['w1'], [], 0, 'w1x1', 1],
  ['lists so many', ['m1'], pagesOf(25), 25, idsOf(25), 1],
  ['begins with an empty page', ['m1'], ['', '', 'w1', 'w2'], 4, 'w1x1 w2x1', 1],
  ['lists some nowhere else', ['m1 w1'], ['w1 w2', 'w1', 'w3'], 3, 'w1x1 w2x1 w3x1', 2],
  ['tells their state nowhere else', ['m1 w1:none w2:none'], ['w1 w2:success', 'w3'], 2, 'w1x1 w3x1', 3],
  ['tells of another state by then', ['w1 w2'], ['w1:success w2'], 1, 'w2x1', 2],
])('asks for failed workflow runs by themselves, of a service that %s', async (_, plain, workflows, ...found) => {
  expect(await createAgent()(plain, workflows)).toEqual(found);
});

it('asks only once everything is read, and not when it looks for new entries', async () => {
  const observe = createAgent();
  const broken = new UpstreamError('server', 'GET /v2/dlq: status 500');
  await expect(observe(['m1', broken], ['w1'])).rejects.toBe(broken);
  expect(await observe(['m1'], ['w1'])).toEqual([1, 'w1x1', 1]);
  expect(await observe(['m1 w2'], ['w1 w3'], 0, 'new')).toEqual([0, 'w1x1', 2]);
});

it('takes no notice of what only a filter lists', async () => {
  const observe = createAgent({ filters: [{ name: 'payments', match: { queueName: 'payments' } }] });
  expect(await observe(['m1 w1'], [''])).toEqual([1, 'w1x1', 2]);
});

it.each([
  new UpstreamError('refused', 'GET /v2/dlq: status 400', { status: 400 }),
  new UpstreamError('not_found', 'GET /v2/dlq: status 404', { status: 404 }),
])('does without them where the service does not know the question, and asks again much later: %s', async refusal => {
  const observe = createAgent();
  const calls: number[] = [];
  for (let walk = 1; walk <= 14; walk += 1) {
    const [asked, tracked] = await observe(['m1 w1'], [refusal]);
    expect(tracked).toBe(`w1x${walk}`);
    calls.push(asked);
  }
  expect(calls).toEqual([1, ...Array<number>(12).fill(0), 1]);
  for (let walk = 0; walk < 12; walk += 1) await observe(['w1'], ['w2']);
  expect(await observe(['w1'], ['w2'])).toEqual([1, 'w1x27 w2x1', 1]);
});

it.each<[string, UpstreamError, string[]]>([
  ['can’t answer now', new UpstreamError('server', 'status 500', { status: 500 }), []],
  ['takes no token', new UpstreamError('unauthorized', 'status 401', { status: 401 }), []],
  ['was not asked', new UpstreamError('refused', 'not sent'), []],
  ['refuses to go on', new UpstreamError('refused', 'status 400', { status: 400 }), ['w1:success w9']],
])('knows nothing by a walk whose service %s', async (_, failure, pages) => {
  const observe = createAgent();
  expect(await observe(['w1'], [''])).toEqual([1, 'w1x1', 1]);
  // The queue's own numbers are new all the same.
  expect(await observe(['w1 w2'], [...pages, failure])).toEqual([pages.length + 1, 'w1x1', 2]);
  expect(await observe(['w1 w2'], [''])).toEqual([1, 'w1x2 w2x1', 2]);
});

it('fails the round when it is stopped while it asks for them', async () => {
  const stopped = new Error('stopped') as UpstreamError;
  await expect(createAgent()(['w1'], [stopped])).rejects.toBe(stopped);
});
