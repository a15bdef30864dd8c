import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ReadRound } from '../../src/upstream/api.ts';
import { type AccountList, createMissingLists } from '../../src/upstream/missing-lists.ts';
import { allKeys, allRows, createTestClient } from '../support/client.ts';
import { serve } from '../support/http-service.ts';
import { runs } from '../support/runs.ts';

const FULL: ReadRound = { name: 'full', maxAge: 1000 };

const signal = () => new AbortController().signal;

/** Starts a service with a changeable body, and creates its client. */
async function setUp(before: readonly AccountList[] = []) {
  let body = '';
  let packs = false;
  const service = await serve((_request, response) => {
    if (packs) response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(body));
    else response.end(body);
  });
  const missingLists = createMissingLists(before);
  const { client, counts } = createTestClient(service.url, { missingLists });
  const READS: Readonly<Record<AccountList, (round?: ReadRound) => Promise<number>>> = {
    dlq: async round => (await allRows(client.at('dlq', round).dlqPages({}, signal()))).length,
    events: async round => (await allRows(client.at('dlq', round).eventPages({ fromDate: 1 }, signal()))).length,
    flow_control: async round => (await allKeys(client.at('dlq', round), signal())).rows.length,
    schedules: round => countRows(take => client.at('dlq', round).schedules(signal(), take)),
    queues: round => countRows(take => client.at('dlq', round).queues(signal(), take)),
    runs: async round => (await allRows(client.at('dlq', round).runPages({}, signal()))).length,
  };
  return {
    client,
    counts,
    missingLists,
    answer(next: string, isPacked = false) {
      body = next;
      packs = isPacked;
    },
    /** Reads a list in a round and returns the number of its rows, or the reason of the failure. */
    read: (list: AccountList, round: ReadRound | undefined = FULL): Promise<number | string> =>
      READS[list](round).catch((error: { reason: string }) => error.reason),
  };
}

async function countRows(read: (take: () => void) => Promise<number>): Promise<number> {
  let rows = 0;
  await read(() => {
    rows += 1;
  });
  return rows;
}

const ROWS: Readonly<Record<AccountList, string>> = {
  dlq: '{"messages":[{"dlqId":"1-0"}]}',
  events: '{"events":[{"messageId":"m","state":"CREATED","time":1764320061000}]}',
  flow_control: '{"flowControls":[{"flowControlKey":"k","waitListSize":1}]}',
  schedules: '[{"scheduleId":"s"}]',
  queues: '[{"name":"q"}]',
  runs: '{"runs":[{"workflowRunId":"r","workflowState":"RUN_STARTED"}]}',
};
const EMPTY: Readonly<Record<AccountList, string>> = {
  dlq: '{"messages":[]}',
  events: '{"events":[]}',
  flow_control: '[]',
  schedules: '[]',
  queues: '[]',
  runs: '{"runs":[]}',
};
const ALL = Object.keys(EMPTY) as AccountList[];
const OTHER_REAL: readonly [AccountList, string, number][] = [
  ['events', '{"logs":[{"messageId":"m","state":"CREATED","time":1764320061000}]}', 1],
  ['events', '{"messages":[{"messageId":"m","events":[{"state":"CREATED","time":1764320061000}]}]}', 1],
  ['events', '{"messages":[]}', 0],
  ['flow_control', '[{"flowControlKey":"k"}]', 1],
  ['dlq', '{"messages":[],"cursor":null}', 0],
];
const FIELD: Readonly<Record<AccountList, string>> = {
  dlq: 'messages',
  events: 'events',
  flow_control: 'flowControls',
  schedules: 'schedules',
  queues: 'queues',
  runs: 'runs',
};
const MISSING = ['{}', 'null', '{"cursor":null}', '{"cursor":""}', '{"LIST":null}', '{"LIST":null,"cursor":null}'];
const INVALID = [
  '',
  '""',
  '<html>busy</html>',
  '{"LIST":{}}',
  '{"LIST":"none"}',
  '{"LIST":[null]}',
  '{"LIST":[{}]}',
  '{"LIST":null,"total":0}',
  '{"error":""}',
  '{"error":null}',
  '{"error":"busy","LIST":[]}',
  '{"ok":true}',
  '{"message":"maintenance"}',
  '{"cursor":{}}',
];
const each = (bodies: readonly string[]) =>
  ALL.flatMap(list => bodies.map(body => [list, body.replace('LIST', FIELD[list])] as const));

describe('missing lists', () => {
  it.each(each(MISSING))(
    '%s: the body %s is an empty list until the service has returned a list',
    async (list, body) => {
      const { answer, read, counts } = await setUp();
      answer(body);
      for (let round = 0; round < 5; round += 1) expect(await read(list)).toBe(0);
      expect(counts.missing).toEqual({});
    },
  );

  it.each(each(MISSING))('%s: the body %s is invalid after a list, until three rounds agree', async (list, body) => {
    const { answer, read, counts } = await setUp();
    for (const real of [ROWS, EMPTY]) {
      answer(real[list]);
      await read(list);
      const before = counts.missing[list] ?? 0;
      answer(body, real === EMPTY);
      const found = [];
      for (let round = 0; round < 5; round += 1) found.push(await read(list));
      expect(found).toEqual(['invalid_response', 'invalid_response', 0, 0, 0]);
      expect(counts.missing[list]).toBe(before + 2);
    }
  });

  it.each(OTHER_REAL)('%s: the body %s is a list', async (list, body, rows) => {
    const { answer, read } = await setUp();
    answer(body);
    expect(await read(list)).toBe(rows);
    answer('{}');
    expect(await read(list)).toBe('invalid_response');
  });

  it.each(each(INVALID))('%s: the body %j is always invalid', async (list, body) => {
    const { answer, read, missingLists } = await setUp();
    answer(body);
    for (let round = 0; round < 4; round += 1) expect(await read(list)).toBe('invalid_response');
    expect(missingLists.listed()).toEqual([]);
  });

  it('a response with a list restarts the count of rounds without a list', async () => {
    const { answer, read } = await setUp(['dlq']);
    const found = [];
    for (const body of [
      '{}',
      'null',
      ROWS.dlq,
      '{}',
      '{}',
      EMPTY.dlq,
      '{}',
      '{"cursor":null}',
      'null',
      ROWS.dlq,
      '{}',
    ]) {
      answer(body);
      found.push(await read('dlq'));
    }
    const no = 'invalid_response';
    expect(found).toEqual([no, no, 1, no, no, 0, no, no, 0, 1, no]);
  });

  it('other kinds of failures do not count as a missing list', async () => {
    const { answer, read } = await setUp(['dlq']);
    const found = [];
    for (const body of ['{}', '<html>', '{}', '[null]', '{}']) {
      answer(body);
      found.push(await read('dlq'));
    }
    expect(found).toEqual([...Array(4).fill('invalid_response'), 0]);
  });

  it('a missing list does not affect other lists, and lists found by an earlier process count as known', async () => {
    const { answer, read, missingLists } = await setUp(['events']);
    answer('{}');
    expect([await read('events'), await read('dlq'), await read('flow_control')]).toEqual(['invalid_response', 0, 0]);
    answer(EMPTY.dlq);
    await read('dlq');
    expect(missingLists.listed()).toEqual(['dlq', 'events']);
  });

  it('a read outside rounds fails if its response omits a known list, even after many such responses', async () => {
    const { answer, client } = await setUp(['dlq']);
    answer('{}');
    const reader = client.at('look');
    for (let read = 0; read < 5; read += 1) {
      await expect(allRows(reader.dlqPages({}, signal()))).rejects.toMatchObject({ reason: 'invalid_response' });
    }
  });

  it('a round counts once regardless of its number of responses without a list', async () => {
    const service = await serve((request, response) =>
      response.end(request.url?.includes('cursor') ? 'null' : '{"cursor":"x"}'),
    );
    const { client } = createTestClient(service.url, { missingLists: createMissingLists(['dlq']) });
    const round = async (queries: readonly object[]) => {
      const reader = client.at('dlq', FULL);
      const reads = queries.map(query => allRows(reader.dlqPages(query, signal())));
      return (await Promise.allSettled(reads)).map(({ status }) => status);
    };
    const windows = [{ toDate: 5 }, { fromDate: 6, toDate: 9 }, { fromDate: 10 }];
    expect(await round(windows)).toEqual(Array(3).fill('rejected'));
    expect(await round(windows)).toEqual(Array(3).fill('rejected'));
    expect(await round(windows)).toEqual(Array(3).fill('fulfilled'));
    // Windows without a list do not show that the whole list is missing, nor does a filter.
    expect(await round([{}, { queueName: 'a' }])).toEqual(['rejected', 'rejected']);
  });

  it('a second page without a list fails the read until three rounds agree, even if the first page contains the list', async () => {
    const service = await serve((request, response) =>
      response.end(request.url?.includes('cursor') ? '{}' : '{"messages":[{"dlqId":"1-0"}],"cursor":"x"}'),
    );
    const { client } = createTestClient(service.url);
    const found = [];
    for (let round = 0; round < 4; round += 1) {
      found.push(
        await allRows(client.at('dlq', FULL).dlqPages({}, signal())).then(
          rows => rows.length,
          () => 'failed',
        ),
      );
    }
    expect(found).toEqual(['failed', 'failed', 1, 1]);
  });

  it('before three rounds agree, only a body that is or contains an empty list counts as an empty list', async () => {
    const { answer, read } = await setUp(ALL);
    const value = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.dictionary(
        fc.constantFrom('messages', 'events', 'logs', 'runs', 'flowControls', 'schedules', 'cursor', 'error', 'total'),
        fc.oneof(fc.constantFrom<unknown>(null, '', [], {}, [null], [[]], [{}], 0, 'x'), fc.jsonValue({ maxDepth: 1 })),
      ),
    );
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...ALL), value, async (list, body) => {
        answer(JSON.stringify(body));
        // A third round may agree with two before it.
        for (let round = 0; round < 2; round += 1) {
          const isBareArray = Array.isArray(body) && body.length === 0 && EMPTY[list] === '[]';
          const lists = typeof body === 'object' && body !== null && !Array.isArray(body) ? Object.values(body) : [];
          const hasEmptyList = lists.some(
            each => Array.isArray(each) && each.every(group => Array.isArray(group?.events)),
          );
          const found = await read(list);
          if (found === 0) expect(isBareArray || hasEmptyList).toBe(true);
          expect(['number', 'string']).toContain(typeof found);
        }
        // Resets the count of rounds.
        answer(ROWS[list]);
        for (let round = 0; round < 2; round += 1) expect(await read(list)).toBe(1);
      }),
      { numRuns: runs(300) },
    );
  });
});
