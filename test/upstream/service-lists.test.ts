import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ServiceQueue, ServiceSchedule } from '../../src/model/service.ts';
import { isMissingPath, isOtherRegion, UpstreamError } from '../../src/upstream/errors.ts';
import {
  toGlobalParallelism,
  toServiceQueue,
  toServiceSchedule,
  toWorkflowRun,
} from '../../src/upstream/wire-service.ts';
import { allRows, createTestClient } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';

const signal = () => new AbortController().signal;
const NOW = Date.UTC(2026, 10, 28, 12);

/** Returns the body of a documented response. */
const sample = (name: string) =>
  JSON.parse(readFileSync(new URL(`samples/${name}.json`, import.meta.url), 'utf8')).body as unknown;

async function readerOf(body: unknown, status = 200) {
  const service = await serve((_request, response) => json(response, body, status));
  return { service, ...createTestClient(service.url) };
}

async function schedulesIn(body: unknown) {
  const { reader, counts } = await readerOf(body);
  const rows: ServiceSchedule[] = [];
  const rejected = await reader.schedules(signal(), row => void rows.push(row));
  return { rows, rejected, counts };
}

describe('schedules', () => {
  it('the documented schedules are parsed: a paused one, a running one, and one with a time zone and an error', async () => {
    expect((await schedulesIn(sample('schedules-docs-old'))).rows).toEqual([
      {
        scheduleId: 'schedule-id',
        cron: '* * * * *',
        destination: 'https://your-website/api',
        createdAt: 1754565618803,
        paused: true,
        lastRunAt: 1755095280020,
        nextRunAt: 1759909800000,
        lastRunStates: { in_progress: 0, success: 1, fail: 0, unknown: 0 },
        labels: [],
      },
    ]);
    expect((await schedulesIn(sample('schedules-live'))).rows).toMatchObject([
      { scheduleId: 'scd_5RLBWxdLydTNr99CiaTBCRb6UtrU', paused: false, lastRunStates: { in_progress: 1 } },
    ]);
    expect((await schedulesIn(sample('schedules-error-tz'))).rows).toMatchObject([
      {
        cron: '0 4 * * *',
        tz: 'America/New_York',
        destination: 'urlGroupName',
        queue: 'emails',
        labels: ['billing', 'prod'],
        lastRunStates: { success: 1, fail: 1 },
        error: 'url group not found',
      },
    ]);
  });

  it('an unreported value of a schedule is absent, an unreadable one is counted, and a row without an id is rejected', async () => {
    const { rows, rejected, counts } = await schedulesIn([
      { scheduleId: 's', lastScheduleTime: 0, isPaused: 'perhaps', lastScheduleStates: [1], nextScheduleTime: -5 },
      { scheduleId: 't' },
      { scheduleId: '' },
      null,
    ]);
    expect(rows).toEqual([
      { scheduleId: 's', labels: [], isIncomplete: true },
      { scheduleId: 't', labels: [] },
    ]);
    expect([rejected, counts.rejected]).toEqual([2, { schedules: 3 }]);
  });

  it('header, body and secrets in the error of a schedule are not kept', async () => {
    const { rows } = await schedulesIn([
      {
        scheduleId: 's',
        header: { Authorization: ['canary'] },
        body: 'canary',
        error: `Bearer canary${'x'.repeat(5000)}`,
      },
    ]);
    expect(JSON.stringify(rows)).not.toContain('canary');
    expect(rows[0]?.error?.length).toBeLessThanOrEqual(200);
  });

  it.each([{ error: 'busy' }, 'none', [null], { schedules: {} }])(
    'the body %j is not a list of schedules',
    async body => expect(schedulesIn(body)).rejects.toMatchObject({ reason: 'invalid_response' }),
  );
});

describe('queues', () => {
  it('the documented queue is parsed, and its absent pause stays unknown', async () => {
    const { reader } = await readerOf(sample('queues-docs-old'));
    const rows: ServiceQueue[] = [];
    expect(await reader.queues(signal(), row => void rows.push(row))).toBe(0);
    const time = 1623345678001;
    expect(rows).toEqual([{ name: 'my-queue', createdAt: time, updatedAt: time, parallelismLimit: 5, lag: 100 }]);
    expect(toServiceQueue({ name: 'q', paused: true, lag: '7' }, NOW)).toMatchObject({ paused: true, lag: 7 });
    expect(toServiceQueue({ name: 'q', lag: -1 }, NOW)).toEqual({ name: 'q', isIncomplete: true });
  });
});

describe('global parallelism', () => {
  it.each([
    [sample('global-parallelism'), { limit: 100, inUse: 7 }],
    [{ parallelismMax: 100 }, { limit: 100, inUse: 0 }],
    [{ parallelismCount: 3 }, { inUse: 3 }],
    [{ parallelismMax: 100, parallelismCount: null }, { limit: 100 }],
  ])('the response %j is read as %j', async (body, expected) => {
    const { reader } = await readerOf(body);
    expect(await reader.globalParallelism(signal())).toEqual(expected);
  });

  it.each([
    {},
    null,
    [],
    'x',
    { error: 'busy', parallelismMax: 1 },
    { parallelismMax: 'many' },
    { parallelismCount: -1 },
  ])('the response %j is invalid', async body => {
    const { reader } = await readerOf(body);
    await expect(reader.globalParallelism(signal())).rejects.toMatchObject({ reason: 'invalid_response' });
  });
});

describe('workflow runs', () => {
  const runsIn = async (body: unknown) => allRows((await readerOf(body)).reader.runPages({}, signal()));

  it('the documented runs are parsed: a failed one with its callback, and a stuck one', async () => {
    expect(await runsIn(sample('workflow-logs-callback'))).toEqual([
      {
        runId: 'wfr_a',
        url: 'https://app.example.com/api/wf/onboarding',
        state: 'failed',
        createdAt: 1764319900000,
        completedAt: 1764320000000,
        dlqId: '1764320000000-0',
        labels: [],
        failureFunction: { state: 'in_progress', nextDeliveryAt: 1764342026000 },
      },
    ]);
    expect(await runsIn(sample('workflow-run-stuck'))).toMatchObject([{ runId: 'wfr_xxx', state: 'started' }]);
    const [row] = (sample('workflow-logs-docs') as { runs: unknown[] }).runs;
    expect(toWorkflowRun(row, NOW)).toMatchObject({ state: 'success', createdAt: 1736340463061 });
    expect(toWorkflowRun({ workflowRunId: 'r', workflowState: 'RUN_PAUSED' }, NOW)?.state).toBe('unknown');
    expect(toWorkflowRun({ workflowRunId: 'r' }, NOW)).toBeUndefined();
  });

  it('runs are requested ten a page with the documented parameters, also after empty pages', async () => {
    const service = await serve((request, response) => {
      const cursor = Number(new URL(request.url ?? '', 'http://x').searchParams.get('cursor') ?? 0);
      const runs = cursor === 2 ? [{ workflowRunId: 'r', workflowState: 'RUN_STARTED' }] : [];
      json(response, { runs, cursor: cursor === 2 ? '' : String(cursor + 1) });
    });
    const { reader } = createTestClient(service.url);
    const query = { state: 'started', toDate: 7, runs: [{ runId: 'wfr_a', createdAt: 5 }] } as const;
    expect(await allRows(reader.runPages(query, signal()))).toMatchObject([{ runId: 'r' }]);
    const asked = 'trimBody=-1&state=RUN_STARTED&toDate=7&workflowRuns=wfr_a%405&count=10';
    expect(service.requests).toEqual([
      `GET /v2/workflows/logs?${asked}`,
      `GET /v2/workflows/logs?${asked}&cursor=1`,
      `GET /v2/workflows/logs?${asked}&cursor=2`,
    ]);
    const unsafe = { runs: [{ runId: 'a,b', createdAt: 5 }] };
    expect(() => reader.runPages(unsafe, signal())).toThrow(UpstreamError);
  });
});

describe('services without an endpoint', () => {
  it.each([
    [404, { error: 'not found' }, true, false],
    [405, 'Method Not Allowed', true, false],
    [404, sample('error-wrong-region'), false, true],
    [503, { error: 'busy' }, false, false],
  ])('status %i with the body %j: missing path %s, other region %s', async (status, body, isMissing, isRegion) => {
    const { reader } = await readerOf(body, status);
    const error = await reader.schedules(signal(), () => undefined).catch((error: UpstreamError) => error);
    if (!(error instanceof UpstreamError)) throw new Error('no error');
    expect([isMissingPath(error), isOtherRegion(error.reason, error.serviceError)]).toEqual([isMissing, isRegion]);
  });
});

it('no row of any content makes a mapper throw', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (value, other) => {
      const ids = { scheduleId: 's', name: 'q', workflowRunId: 'r', workflowState: 'RUN_STARTED' };
      const names = [
        'cron',
        'lastScheduleStates',
        'isPaused',
        'lag',
        'failureFunction',
        'labels',
        'error',
        'parallelismMax',
      ];
      const row = { ...ids, ...Object.fromEntries(names.map(name => [name, value])), lastScheduleTime: other };
      for (const each of [value, row, { ...row, failureFunction: { errors: value, state: other } }]) {
        toServiceSchedule(each, NOW, text => text);
        toServiceQueue(each, NOW);
        toWorkflowRun(each, NOW);
        toGlobalParallelism(each, NOW);
      }
    }),
  );
});
