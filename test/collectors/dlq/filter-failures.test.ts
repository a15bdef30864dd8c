import type { ServerResponse } from 'node:http';
import { expect, it } from 'vitest';
import { createMemoryStore } from '../../../src/store/memory.ts';
import { json, serve } from '../../support/http-service.ts';
import { createFilterAgent } from './filter-agent.ts';

const START = Date.UTC(2026, 0, 1);
const MINUTE = 60_000;

type Row = Readonly<Record<string, unknown>>;
type Answer = (query: URLSearchParams, response: ServerResponse) => boolean;

/**
 * Starts a service that can only filter by date. It lists all rows in a range in pages of `page` rows, unless `answer`
 * handles the request.
 */
async function service(rows: Row[], { answer = () => false, page = 100 }: { answer?: Answer; page?: number } = {}) {
  return serve((request, response) => {
    const query = new URL(request.url ?? '', 'http://x').searchParams;
    if (answer(query, response)) return;
    if (query.has('source')) return json(response, { error: 'unknown parameter' }, 400);
    const begin = Number(query.get('cursor') ?? 0);
    const [from, to] = [Number(query.get('fromDate') ?? 0), Number(query.get('toDate') ?? Number.POSITIVE_INFINITY)];
    const all = rows.filter(({ createdAt }) => Number(createdAt) >= from && Number(createdAt) <= to);
    const listed = all.slice(begin, begin + page);
    const cursor = begin + page < all.length ? { cursor: String(begin + page) } : {};
    json(response, { messages: listed, ...cursor });
  });
}

const row = (number: number, fields: object = {}): Row => ({
  dlqId: `${START + number}-0`,
  messageId: `msg_${number}`,
  url: 'https://api.example.com/',
  createdAt: START + number,
  ...fields,
});
const rowsOf = (count: number, fields: (number: number) => object = () => ({})) =>
  Array.from({ length: count }, (_, number) => row(number, fields(number)));

const LABELLED = { name: 'labelled', match: { label: 'x' } };
const BY_URL = { name: 'by-url', match: { url: 'https://api.example.com/' } };

/** Returns a handler that uses `respond` to answer requests that contain `parameter`. */
const answering =
  (parameter: string, respond: (response: ServerResponse) => void): Answer =>
  (query, response) => {
    if (!query.has(parameter)) return false;
    respond(response);
    return true;
  };

it('withdraws a filter if only 3 of 30 listed rows match it, but shows the queue and the other filter', async () => {
  const { url } = await service(rowsOf(30, number => (number % 10 === 0 ? { label: 'x' } : {})));
  const agent = await createFilterAgent({ url, filters: [LABELLED, BY_URL] });
  await agent.round('full');
  expect(agent.shown('labelled')).toEqual({});
  expect(agent.shown('by-url')).toEqual({ messages: 30, proven: 1, entered: 0 });
  expect(agent.shown()).toEqual({ messages: 30 });
  expect(agent.failures()).toEqual(['labelled: the service ignores the parameter label: 27 of 30 rows do not match']);
  expect(agent.rounds().full).toEqual([true, false]);
  expect(agent.log.lines.filter(({ level }) => level === 'warn')).toEqual([
    {
      level: 'warn',
      message: 'filter failed',
      fields: {
        account: 'a',
        collector: 'dlq',
        filter: 'labelled',
        reason: 'invalid_response',
        error: 'the service ignores the parameter label: 27 of 30 rows do not match',
      },
    },
  ]);
});

it('stops reading a contradicted filter at the first page that contradicts it', async () => {
  const { url, requests } = await service(
    rowsOf(1000, () => ({ label: 'y' })),
    { page: 10 },
  );
  const agent = await createFilterAgent({ url, filters: [LABELLED] });
  await agent.round('full');
  expect(agent.shown()).toEqual({ messages: 1000 });
  expect(requests.filter(request => request.includes('label=x'))).toHaveLength(1);
});

it('treats a filter as contradicted if its rows lack a field that later rows of the queue contain', async () => {
  const rows = [...rowsOf(25), row(25, { queueName: 'emails' })];
  const { url } = await service(rows, {
    page: 5,
    answer: answering('queueName', response => json(response, { messages: rows.slice(0, 4) })),
  });
  const agent = await createFilterAgent({ url, filters: [{ name: 'emails', match: { queueName: 'emails' } }] });
  await agent.round('full');
  expect(agent.failures()).toEqual(['emails: the service ignores the parameter queueName: 4 of 4 rows do not match']);
  expect(agent.shown('emails')).toEqual({});
});

it('leaves a filter unproven while no row of the queue contains its field', async () => {
  const rows = rowsOf(3);
  const { url } = await service(rows);
  const agent = await createFilterAgent({ url, filters: [LABELLED, BY_URL] });
  await agent.round('full');
  expect(agent.shown('labelled')).toEqual({ messages: 3, proven: 0, entered: 0 });
  expect(agent.rounds().full).toEqual([true, true]);
  expect(agent.failures()).toEqual([]);
  rows.push(row(3, { label: 'y' }));
  await agent.round('full');
  expect(agent.failures()).toEqual(['labelled: the service ignores the parameter label: 4 of 4 rows do not match']);
});

it('treats a filter without rows as proven', async () => {
  const { url } = await service(
    rowsOf(3, () => ({ label: 'y' })),
    {
      answer: answering('label', response => json(response, { messages: [] })),
    },
  );
  const agent = await createFilterAgent({ url, filters: [LABELLED] });
  await agent.round('full');
  expect(agent.shown('labelled')).toEqual({ messages: 0, proven: 1, entered: 0 });
});

it('treats a filter that lists the whole queue as proven if every row matches', async () => {
  const { url } = await service(rowsOf(3, () => ({ labels: ['y', 'x'] })));
  const agent = await createFilterAgent({ url, filters: [LABELLED] });
  await agent.round('full');
  expect(agent.shown('labelled')).toEqual({ messages: 3, proven: 1, entered: 0 });
});

it('withdraws a filter on the first new row that contradicts it, and counts no entries from that read', async () => {
  const rows = rowsOf(150, () => ({ label: 'x' }));
  const { url } = await service(rows);
  const agent = await createFilterAgent({ url, filters: [LABELLED], now: () => START + MINUTE });
  await agent.round('full');
  expect(agent.shown('labelled')).toEqual({ messages: 150, proven: 1, entered: 0 });
  rows.push(row(150, { label: 'x' }), row(151, { label: 'y' }));
  await agent.round('new');
  expect(agent.shown('labelled')).toEqual({});
  expect(agent.shown()).toEqual({ messages: 152 });
  expect(agent.rounds().new).toEqual([true, false]);
  rows.pop();
  await agent.round('full');
  expect(agent.shown('labelled')).toEqual({ messages: 151, proven: 1, entered: 1 });
  expect(agent.rounds().full).toEqual([true, true]);
  expect(agent.log.lines.map(({ message }) => message)).toContain('filter recovered');
});

const FAILURES: readonly (readonly [what: string, respond: (response: ServerResponse) => void, message: string])[] = [
  ['400', response => json(response, { error: 'invalid label' }, 400), 'GET /v2/dlq: status 400: invalid label'],
  ['422', response => json(response, { error: 'invalid label' }, 422), 'GET /v2/dlq: status 422: invalid label'],
  ['404', response => json(response, { error: 'no such label' }, 404), 'GET /v2/dlq: status 404: no such label'],
  ['500', response => json(response, { error: 'oops' }, 500), 'GET /v2/dlq: status 500: oops'],
  [
    'an error instead of a list',
    response => json(response, { error: 'oops' }),
    'GET /v2/dlq: no complete list of messages',
  ],
  ['HTML', response => response.end('<html>'), 'GET /v2/dlq: '],
  ['no response in time', () => undefined, 'GET /v2/dlq: '],
];

it.each(FAILURES)(
  'shows the queue and the other filter while reads of one filter fail: %s',
  async (what, respond, message) => {
    // On a busy machine, the other filter also takes longer.
    const timeout = what === 'no response in time' ? 2000 : 30_000;
    const rows = rowsOf(150, number => ({ label: number === 0 ? 'x' : 'y' }));
    const { url } = await service(rows, { answer: answering('label', respond) });
    const filters = [LABELLED, BY_URL];
    const agent = await createFilterAgent({ url, filters, timeout, now: () => START + MINUTE });
    await agent.round('full');
    expect(agent.failures()).toEqual([expect.stringContaining(`labelled: ${message}`)]);
    expect(agent.shown('labelled')).toEqual({ entered: 0 });
    expect(agent.shown('by-url')).toEqual({ messages: 150, proven: 1, entered: 0 });
    expect(agent.rounds().full).toEqual([true, false]);
    rows.push(row(150));
    await agent.round('new');
    expect(agent.shown()).toEqual({ messages: 151 });
    expect(agent.shown('by-url')).toEqual({ messages: 151, proven: 1, entered: 1 });
    expect(agent.rounds().new).toEqual([true, false]);
    const [{ consecutiveFailures } = { consecutiveFailures: -1 }] = agent.status().rounds;
    expect(consecutiveFailures).toBe(0);
  },
);

it('withdraws the last size of a failing filter after half an hour, and shows it again after recovery', async () => {
  const rows = rowsOf(3, () => ({ label: 'x' }));
  let isRefused = false;
  const { url, requests } = await service(rows, {
    answer: (query, response) => {
      if (!isRefused || !query.has('label')) return false;
      json(response, { error: 'not now' }, 400);
      return true;
    },
  });
  const clock = { now: START + MINUTE };
  const agent = await createFilterAgent({ url, filters: [LABELLED], now: () => clock.now });
  await agent.round('full');
  isRefused = true;
  rows.push(row(3, { label: 'x' }));
  await agent.round('new');
  const failedAt = clock.now;
  expect(agent.shown('labelled')).toEqual({ messages: 3, proven: 1, entered: 0 });
  expect(agent.status().failedFilters).toMatchObject([{ since: failedAt, reason: 'refused', isContradicted: false }]);

  const filterRequests = () => requests.filter(request => request.includes('label=x')).length;
  const before = filterRequests();
  rows.push(row(4, { label: 'x' }));
  await agent.round('new');
  expect(filterRequests()).toBe(before);
  clock.now += 29 * MINUTE;
  await agent.round('full');
  expect(agent.shown('labelled')).toEqual({ messages: 3, proven: 1, entered: 0 });
  clock.now += MINUTE;
  await agent.round('new');
  expect(agent.shown('labelled')).toEqual({ entered: 0 });
  expect(agent.shown()).toEqual({ messages: 5 });

  isRefused = false;
  await agent.round('full');
  expect(agent.shown('labelled')).toEqual({ messages: 5, proven: 1, entered: 2 });
  expect(agent.failures()).toEqual([]);
});

it('fails the round if the queue itself cannot be read', async () => {
  const { url } = await service([], {
    answer: (_, response) => {
      json(response, { error: 'down' }, 400);
      return true;
    },
  });
  const agent = await createFilterAgent({ url, filters: [LABELLED] });
  await agent.round('full');
  expect(agent.rounds().full).toEqual([false, false]);
  expect(agent.status().failedFilters).toBeUndefined();
});

it('resets a filter’s counters when its match changes, but not when the keys of the match are reordered', async () => {
  const rows = rowsOf(3, () => ({ label: 'x', queueName: 'q' }));
  const { url } = await service(rows);
  const store = createMemoryStore();
  const agentWith = (match: Readonly<Record<string, string>>) =>
    createFilterAgent({ url, store, filters: [{ name: 'f', match }], now: () => START + MINUTE });
  const first = await agentWith({ label: 'x', queueName: 'q' });
  await first.round('full');
  rows.push(row(3, { label: 'x', queueName: 'q' }));
  await first.round('full');
  expect(first.shown('f')).toMatchObject({ entered: 1 });
  const reordered = await agentWith({ queueName: 'q', label: 'x' });
  expect(reordered.shown('f')).toMatchObject({ entered: 1 });
  const changed = await agentWith({ queueName: 'q' });
  await changed.round('full');
  expect(changed.shown('f')).toEqual({ messages: 4, proven: 1, entered: 0 });
});

it('requests no date range that ends before it starts', async () => {
  const rows = rowsOf(150, () => ({ label: 'x' }));
  const { url } = await service(rows, {
    answer: (query, response) => {
      if (!(Number(query.get('fromDate')) > Number(query.get('toDate')) && query.has('toDate'))) return false;
      json(response, { error: 'fromDate is after toDate' }, 400);
      return true;
    },
  });
  const clock = { now: START + MINUTE };
  const old = { name: 'old', match: { label: 'x', toDate: START + 1000 } };
  const agent = await createFilterAgent({ url, filters: [old], now: () => clock.now });
  await agent.round('full');
  clock.now += 40 * 60 * MINUTE;
  rows.push({ dlqId: `${clock.now}-0`, messageId: 'later', url: 'https://api.example.com/', createdAt: clock.now });
  await agent.round('new');
  expect(agent.shown()).toEqual({ messages: 151 });
  expect(agent.failures()).toEqual([]);
  expect(agent.shown('old')).toEqual({ messages: 150, proven: 1, entered: 0 });
});

it('keeps a contradicted filter hidden across errors and restarts until a complete read succeeds', async () => {
  const rows = rowsOf(3, () => ({ label: 'x' }));
  let isDown = false;
  const { url } = await service(rows, {
    answer: (query, response) => {
      if (!isDown || !query.has('label')) return false;
      json(response, { error: 'oops' }, 500);
      return true;
    },
  });
  const store = createMemoryStore();
  const start = () => createFilterAgent({ url, filters: [LABELLED], timeout: 500, now: () => START + MINUTE, store });
  const agent = await start();
  await agent.round('full');
  rows.push(row(3, { label: 'y' }));
  await agent.round('full');
  isDown = true;
  await agent.round('full');
  expect(agent.failures()).toEqual(['labelled: GET /v2/dlq: status 500: oops']);
  expect(agent.shown('labelled')).toEqual({});
  const restarted = await start();
  expect(restarted.shown('labelled')).toEqual({});
  isDown = false;
  rows.pop();
  await restarted.round('full');
  expect(restarted.shown('labelled')).toEqual({ messages: 3, proven: 1, entered: 0 });
  expect((await start()).shown('labelled')).toEqual({ entered: 0 });
});

it('stops reading a filter with an endless list, but still shows the queue', async () => {
  let pages = 0;
  const { url } = await service(rowsOf(3), {
    answer: answering('label', response => {
      pages += 1;
      json(response, { messages: [], cursor: String(pages) });
    }),
  });
  const agent = await createFilterAgent({ url, filters: [LABELLED], now: () => START + MINUTE });
  await agent.round('full');
  expect(agent.shown()).toEqual({ messages: 3 });
  expect(agent.failures()).toEqual(['labelled: the list of the filter has more than 502 pages, the queue has 1']);
  expect(agent.rounds().full).toEqual([true, false]);
});

it('leaves a filter unproven while one of its rows is unreadable', async () => {
  const rows = rowsOf(3, () => ({ label: 'x' }));
  const { url } = await service([...rows, { label: 'x', createdAt: START }]);
  const agent = await createFilterAgent({ url, filters: [LABELLED], now: () => START + MINUTE });
  await agent.round('full');
  expect(agent.shown('labelled')).toMatchObject({ proven: 0 });
});

it('reports a contradicted filter as failed as soon as its size is withdrawn, even while the store rejects rows', async () => {
  const rows = rowsOf(3, () => ({ label: 'x' }));
  const { url } = await service(rows);
  const memory = createMemoryStore();
  let isUnavailable = false;
  const commit: typeof memory.commit = (...args) =>
    isUnavailable ? Promise.reject(new Error('away')) : memory.commit(...args);
  const agent = await createFilterAgent({
    url,
    filters: [LABELLED],
    now: () => START + MINUTE,
    store: { ...memory, commit },
  });
  await agent.round('full');
  expect(agent.shown('labelled')).toMatchObject({ messages: 3 });
  isUnavailable = true;
  rows.push(row(3, { label: 'y' }));
  await agent.round('full');
  expect(agent.shown()).toEqual({ messages: 4 });
  expect(agent.shown('labelled').messages).toBeUndefined();
  expect(agent.failures()).toEqual(['labelled: the service ignores the parameter label: 1 of 4 rows do not match']);
});
