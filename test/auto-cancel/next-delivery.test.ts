import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { STAGES } from '../../src/auto-cancel/stages.ts';
import type { DlqEntry } from '../../src/model/message.ts';
import type { WorkflowRun } from '../../src/model/service.ts';
import type { ListPage, RunQuery } from '../../src/upstream/api.ts';
import { UpstreamError } from '../../src/upstream/errors.ts';
import { toWorkflowRun } from '../../src/upstream/wire-service.ts';
import { HOUR, rule } from '../support/auto-cancel-options.ts';
import { createScene } from '../support/auto-cancel-scene.ts';
import type { Scene } from '../support/auto-cancel-scene-type.ts';

const CREATED = Date.UTC(2026, 4, 31);
const ROW: Partial<DlqEntry> = { workflowRunId: 'wfr_a', workflowCreatedAt: CREATED };
const WRONG_REGION = 'user (00000000-0000-4000-8000-000000000000) not found in this region (eu-central-1)';

const BLIND = { evidence: 'blind', acceptUnverified: true, stuckWhen: { seenFor: '72h' }, recheckAfter: '24h' };

const notFound = (serviceError?: string) =>
  new UpstreamError('not_found', 'GET /v2/workflows/logs: status 404', { status: 404, serviceError });

function pageOf(now: number, rows: readonly object[], isLast = true): ListPage<WorkflowRun> {
  const read = rows.map(row => toWorkflowRun(row, now));
  const readable = read.filter(row => row !== undefined);
  const incomplete = readable.filter(({ isIncomplete }) => isIncomplete).length;
  return { rows: readable, rejected: rows.length - readable.length, incomplete, isLast };
}

const runOf = (failureFunction: object | undefined, workflowRunId = 'wfr_a') => ({
  workflowRunId,
  workflowState: 'RUN_FAILED',
  workflowRunCreatedAt: CREATED,
  failureFunction,
});
const waiting = (nextDeliveryTime: unknown) => runOf({ state: 'CALLBACK_INPROGRESS', nextDeliveryTime });

interface Case {
  readonly pages: (now: number, query: RunQuery) => Iterable<ListPage<WorkflowRun>>;
  readonly row?: Partial<DlqEntry>;
  readonly evidence?: 'blind';
}

async function ready({ pages, row = ROW, evidence }: Case): Promise<Scene> {
  const scene = await createScene({ rules: [rule('jobs', evidence ? BLIND : {})] });
  if (evidence) scene.states.set('a', undefined);
  scene.rows.set('a', row);
  scene.onRuns = query => pages(scene.clock.now(), query);
  await scene.warm();
  scene.asked.length = 0;
  return scene;
}

const one =
  (...rows: readonly ((now: number) => object)[]): Case['pages'] =>
  now => [
    pageOf(
      now,
      rows.map(row => row(now)),
    ),
  ];
const fails = (error: Error): Case => ({
  pages() {
    throw error;
  },
});

/** Reasons why no cancel is sent, by response. */
const REFUSED: Readonly<Record<string, readonly [reason: string, Case]>> = {
  'the next delivery is in an hour': ['next_delivery', { pages: one(now => waiting(now + HOUR)) }],
  'the next delivery was due within the permitted clock skew': [
    'next_delivery',
    { pages: one(now => waiting(now - 4000)) },
  ],
  'the next delivery is in nine years': ['next_delivery', { pages: one(now => waiting(now + 9 * 365 * 24 * HOUR)) }],
  'one of two rows of the run has a next delivery': [
    'next_delivery',
    {
      pages: one(
        now => waiting(now - HOUR),
        now => waiting(now + HOUR),
      ),
    },
  ],
  'the run is on the third page, after an empty one': [
    'next_delivery',
    {
      pages: now => [pageOf(now, [], false), pageOf(now, [runOf({}, 'wfr_b')], false), pageOf(now, [waiting(now + 1)])],
    },
  ],
  'the time is in seconds': ['run_unread', { pages: one(now => waiting(Math.floor(now / 1000))) }],
  'the time is in microseconds': ['run_unread', { pages: one(now => waiting(now * 1000)) }],
  'the time is no time': ['run_unread', { pages: one(() => waiting('soon')) }],
  'the failure function is a text': ['run_unread', { pages: one(() => runOf('none' as unknown as object)) }],
  'a row is unreadable': [
    'run_unread',
    {
      pages: one(
        () => ({}),
        now => waiting(now - HOUR),
      ),
    },
  ],
  'the id is listed in another case': ['run_unread', { pages: one(() => runOf({}, 'WFR_A')) }],
  'the service ignores the filter': [
    'run_unread',
    {
      *pages(now) {
        for (;;) yield pageOf(now, [runOf({}, 'wfr_b')], false);
      },
    },
  ],
  'another run is listed': ['run_not_listed', { pages: one(() => runOf({}, 'wfr_b')) }],
  'no run is listed': ['run_not_listed', { pages: one() }],
  'the run has no failure callback': ['run_not_listed', { pages: one(() => runOf(undefined)) }],
  'the token belongs to another region': ['run_unread', fails(notFound(WRONG_REGION))],
  'the service is unavailable': ['run_unread', fails(new UpstreamError('server', 'status 503', { status: 503 }))],
  'the service rejects the parameters': ['run_unread', fails(new UpstreamError('refused', 'no', { status: 400 }))],
  'the second page is not found': [
    'run_unread',
    {
      *pages(now) {
        yield pageOf(now, [], false);
        throw notFound();
      },
    },
  ],
  'the dead letter has no run id': ['run_unknown', { pages: one(), row: { workflowCreatedAt: CREATED } }],
  'the dead letter has no creation time of the run': ['run_unknown', { pages: one(), row: { workflowRunId: 'wfr_a' } }],
  'the run id cannot be sent': ['run_unknown', { pages: one(), row: { ...ROW, workflowRunId: 'a@1,b' } }],
};

/** Responses after which a cancel is sent. */
const SENT: Readonly<Record<string, Case>> = {
  'the next delivery was due an hour ago': { pages: one(now => waiting(now - HOUR)) },
  'the failure callback has no next delivery': { pages: one(() => waiting(undefined)) },
  'the service writes 0 for no next delivery': { pages: one(() => waiting(0)) },
  'the service has no list of runs': fails(notFound()),
  'the service has no list of runs, and the dead letter no run id': { ...fails(notFound()), row: {} },
  'a blind rule applies and the run has no failure callback': {
    pages: one(() => runOf(undefined)),
    evidence: 'blind',
  },
};

describe('the stage “next delivery”', () => {
  it.each(Object.entries(REFUSED))('prevents a cancel if %s', async (_, [reason, given]) => {
    const scene = await ready(given);
    expect(await scene.walk('a')).toBe(`left a ${reason}`);
    expect(scene.sent).toEqual([]);
    expect(scene.explain('a')?.held).toBe(reason);
    expect(scene.autoCancel().numbers().skips).toContainEqual({ rule: 'jobs', reason, count: 1 });
  });

  it.each(Object.entries(SENT))('permits a cancel if %s', async (_, given) => {
    const scene = await ready(given);
    await scene.walk('a');
    expect(scene.sent).toEqual(['a']);
  });

  it('the stage “next delivery” requests only the run of the callback', async () => {
    const queries: RunQuery[] = [];
    const scene = await ready({
      pages(now, query) {
        queries.push(query);
        return [pageOf(now, [waiting(now - HOUR)])];
      },
    });
    await scene.walk('a');
    expect(queries).toEqual([{ runs: [{ runId: 'wfr_a', createdAt: CREATED }] }]);
    expect(scene.asked.filter(what => what === 'action runs')).toHaveLength(1);
  });

  it('sends a cancel once the next delivery is past', async () => {
    const due = { at: 0 };
    const scene = await ready({ pages: one(() => waiting(due.at)) });
    due.at = scene.clock.now() + 90_000;
    expect(await scene.walk('a')).toBe('left a next_delivery');
    await scene.again();
    expect(scene.sent).toEqual(['a']);
  });

  it.each([
    ['in mode plan', { rules: [rule('jobs', { mode: 'plan' })] }, () => {}],
    ['while paused', { rules: [rule('jobs', {})] }, (scene: Scene) => scene.pause()],
    ['if the callback has ended', { rules: [rule('jobs', {})] }, (scene: Scene) => scene.states.set('a', 'success')],
    ['while a limit is reached', { rules: [rule('jobs', { limits: { perRun: 0 } })] }, () => {}],
  ])('requests nothing %s', async (_, section, prepare) => {
    const scene = await createScene(section);
    await scene.warm();
    scene.list('a');
    await prepare(scene);
    await scene.again();
    expect(scene.asked).not.toContain('action runs');
  });

  it('the stage “next delivery” comes right before the last stage, “deadline”, and is evaluated both before the intent and before the request', () => {
    expect(STAGES.slice(-2).map(({ name }) => name)).toEqual(['next delivery', 'deadline']);
    expect(STAGES.at(-2)?.only).toBeUndefined();
  });

  it('no cancel is sent before a next delivery, regardless of the listed runs', async () => {
    const offsets = fc.integer({ min: -3 * HOUR, max: 3 * HOUR });
    const rows = fc.array(
      fc.record({ id: fc.constantFrom('wfr_a', 'wfr_a', 'wfr_b'), after: fc.option(offsets, { nil: undefined }) }),
      { maxLength: 12 },
    );
    const course = fc.array(fc.oneof(rows, fc.constantFrom('404', '503', 'unreadable')), {
      minLength: 1,
      maxLength: 6,
    });
    await fc.assert(
      fc.asyncProperty(course, async walks => {
        let listed: (typeof walks)[number] = [];
        const scene = await ready({
          pages(now) {
            if (listed === '404') throw notFound(WRONG_REGION);
            if (listed === '503') throw new UpstreamError('server', 'status 503', { status: 503 });
            if (listed === 'unreadable') return [pageOf(now, [{}])];
            return [
              pageOf(
                now,
                listed.map(({ id, after }) => runOf({ nextDeliveryTime: after && now + after }, id)),
              ),
            ];
          },
        });
        for (const each of walks) {
          listed = each;
          const before = scene.sent.length;
          await scene.again();
          await scene.walk('a');
          if (scene.sent.length === before) continue;
          const own = typeof each === 'string' ? [] : each.filter(({ id }) => id === 'wfr_a');
          expect(own.length).toBeGreaterThan(0);
          expect(own.every(({ after }) => after === undefined || after <= 0)).toBe(true);
          return;
        }
      }),
      { numRuns: 200 },
    );
  });
});
