import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { WireCallbackState } from '../../src/emulator/message.ts';
import type { Emulator, EmulatorOptions } from '../../src/emulator/server.ts';
import { DLQ_RETENTION_MS } from '../../src/emulator/world.ts';
import { ask, emptyEmulator, emulator, frozen, HOUR, NOON, walk } from './emulated.ts';

const callbackPath = (dlqId: string) => `/v2/workflows/dlq/callback/${dlqId}`;

async function send(to: Emulator, method: string, path: string) {
  const init = { method, redirect: 'manual', headers: { authorization: `Bearer ${to.token}` } } as const;
  const response = await fetch(to.url + path, init);
  const text = await response.text();
  return { status: response.status, location: response.headers.get('location'), text };
}

const cancel = (to: Emulator, dlqId: string) => send(to, 'DELETE', callbackPath(dlqId));
const retry = (to: Emulator, dlqId: string) => send(to, 'POST', callbackPath(dlqId));

async function stateOf(from: Emulator, dlqId: string): Promise<WireCallbackState | undefined> {
  const { body } = await ask(from, `/v2/dlq?dlqIds=${dlqId}`);
  return body.messages[0]?.failureCallbackInfo?.state;
}

describe('cancelling a failure callback', () => {
  test.each([
    ['302', 302],
    ['302-location', 302],
    ['200', 200],
    ['202', 202],
    ['204', 204],
  ] as const)('a cancel returns the configured response %s', async (cancelAnswer, status) => {
    const emulated = await emptyEmulator({ dialect: { cancelAnswer } });
    const trap = emulated.state.addDlqEntry();
    const dlqId = emulated.state.addFailedRun();
    const location = cancelAnswer === '302-location' ? `/v2/dlq/${trap}` : null;
    expect(await cancel(emulated, dlqId)).toEqual({ status, location, text: '' });
    expect(await stateOf(emulated, dlqId)).toBe('CALLBACK_CANCELED');
    expect(await cancel(emulated, dlqId)).toMatchObject({ status: 400 });
    expect(emulated.state.cancels()).toEqual({ [dlqId]: 2 });
  });

  test('a client that follows the Location of a cancel response deletes a dead letter', async () => {
    const emulated = await emptyEmulator({ dialect: { cancelAnswer: '302-location' } });
    const trap = emulated.state.addDlqEntry();
    const dlqId = emulated.state.addFailedRun();
    await ask(emulated, callbackPath(dlqId), {
      method: 'DELETE',
      headers: { authorization: `Bearer ${emulated.token}` },
    });
    expect(emulated.state.dlqRows().map(row => row.dlqId)).toEqual([dlqId]);
    expect(trap).not.toBe(dlqId);
    expect(emulated.state.calls()).toMatchObject({ 'DELETE /v2/dlq/{dlqId}': 1 });
  });

  test('a cancel is rejected for callbacks not in progress, for entries without a callback, and for unknown entries', async () => {
    const emulated = await emptyEmulator();
    const { state } = emulated;
    const refused = [
      ...(['CALLBACK_SUCCESS', 'CALLBACK_FAIL', 'CALLBACK_CANCELED', null] as const).map(callbackState =>
        state.addFailedRun({ callbackState }),
      ),
      state.addDlqEntry(),
    ];
    const before = state.dlqRows();
    for (const dlqId of refused) expect(await cancel(emulated, dlqId)).toMatchObject({ status: 400 });
    for (const dlqId of ['0-0', 'none', '%2e%2e', '1-1%2F1-1'])
      expect(await cancel(emulated, dlqId)).toMatchObject({ status: 404 });
    expect(state.dlqRows()).toEqual(before);
    const removed = state.addFailedRun();
    state.removeDlqEntry(removed);
    expect(await cancel(emulated, removed)).toMatchObject({ status: 404 });
    expect(await send(emulated, 'DELETE', callbackPath('%'))).toMatchObject({ status: 400 });
  });
});

describe('retrying a failure callback', () => {
  test('a retry requires a failed callback and returns the workflow run of the callback', async () => {
    const emulated = await emptyEmulator();
    const { state } = emulated;
    const dlqId = state.addFailedRun({ callbackState: 'CALLBACK_FAIL', workflowRunId: 'wfr_1', workflowCreatedAt: 7 });
    const answer = await retry(emulated, dlqId);
    expect([answer.status, JSON.parse(answer.text)]).toEqual([200, { workflowRunId: 'wfr_1', workflowCreatedAt: 7 }]);
    expect(await stateOf(emulated, dlqId)).toBe('CALLBACK_INPROGRESS');
    for (const callbackState of ['CALLBACK_INPROGRESS', 'CALLBACK_SUCCESS', 'CALLBACK_CANCELED', null] as const) {
      const refused = state.addFailedRun({ callbackState });
      expect(await retry(emulated, refused)).toMatchObject({ status: 400 });
      if (callbackState !== null && callbackState !== 'CALLBACK_INPROGRESS')
        expect(() => state.setCallback(refused, 'CALLBACK_INPROGRESS')).toThrow(RangeError);
    }
    expect(await retry(emulated, state.addDlqEntry())).toMatchObject({ status: 400 });
    expect(await retry(emulated, '5-5')).toMatchObject({ status: 404 });
  });
});

const LEGAL = new Set([
  'CALLBACK_INPROGRESS CALLBACK_SUCCESS',
  'CALLBACK_INPROGRESS CALLBACK_FAIL',
  'CALLBACK_INPROGRESS CALLBACK_CANCELED',
  'CALLBACK_FAIL CALLBACK_INPROGRESS',
]);

test('a callback makes only legal transitions and is cancelled at most once, regardless of the requests', async () => {
  const step = fc.record({
    act: fc.constantFrom('cancel', 'retry', 'wait'),
    which: fc.nat(),
    ms: fc.integer({ min: 0, max: HOUR }),
  });
  const property = fc.asyncProperty(fc.array(step, { maxLength: 25 }), async steps => {
    const { clock, state } = frozen({ scenario: 'stuck-callback', history: HOUR });
    const states = () => new Map(state.dlqRows().map(row => [row.dlqId, row.failureCallbackInfo?.state]));
    let known = states();
    const cancelled = new Map<string, number>();
    for (const { act, which, ms } of steps) {
      const ids = [...known].filter(([, callback]) => callback !== undefined).map(([dlqId]) => dlqId);
      const dlqId = ids[which % ids.length] as string;
      const before = known.get(dlqId);
      if (act === 'wait') clock.advance(ms);
      else if (act === 'retry') {
        expect(state.retryCallback(dlqId)).toBe(before === 'CALLBACK_FAIL' ? 'done' : 'refused');
      } else {
        const verdict = state.cancelCallback(dlqId);
        expect(verdict).toBe(before === 'CALLBACK_INPROGRESS' ? 'done' : 'refused');
        if (verdict === 'done') cancelled.set(dlqId, (cancelled.get(dlqId) ?? 0) + 1);
      }
      const now = states();
      for (const [id, was] of known) {
        const is = now.get(id);
        // `is` is undefined if the entry was removed in this step.
        if (is !== undefined && was !== is) expect(LEGAL).toContain(`${was} ${is}`);
      }
      known = now;
    }
    for (const times of cancelled.values()) expect(times).toBe(1);
  });
  await fc.assert(property, { numRuns: 15 });
});

describe('failed workflow runs', () => {
  test('failed workflow runs have the service’s fields, and callbacks in every state that occurs without cancels', async () => {
    const emulated = await emulator();
    const rows = (await walk(emulated, 'dlq', [['source', 'workflow']])) as {
      [field: string]: unknown;
      failureCallbackInfo?: { state: string; responseStatus?: number };
    }[];
    expect(rows.length).toBeGreaterThan(25);
    for (const row of rows) {
      expect(row).toMatchObject({
        workflowRunId: expect.stringMatching(/^wfr_\w+$/),
        workflowUrl: row.url,
        workflowCreatedAt: expect.any(Number),
        dlqId: expect.stringMatching(/^\d{13}-\d+$/),
      });
      expect('failureCallback' in row).toBe('failureCallbackInfo' in row);
      if (row.failureCallbackInfo?.state === 'CALLBACK_SUCCESS')
        expect(row.failureCallbackInfo.responseStatus).toBe(200);
      if (row.failureCallbackInfo?.state === 'CALLBACK_FAIL')
        expect(row.failureCallbackInfo.responseStatus).not.toBe(200);
    }
    const states = new Set(rows.map(row => row.failureCallbackInfo?.state));
    expect(states).toEqual(new Set(['CALLBACK_INPROGRESS', 'CALLBACK_SUCCESS', 'CALLBACK_FAIL', undefined]));
    const counts = emulated.state.countCallbacks();
    for (const [state, count] of Object.entries(counts)) {
      expect(rows.filter(row => row.failureCallbackInfo?.state === state).length).toBe(count);
      for (const filter of ['failureFunctionState', 'failureCallbackState'])
        expect((await walk(emulated, 'dlq', [[filter, state]])).length).toBe(count);
    }
    const two = await walk(emulated, 'dlq', [['failureFunctionState', 'CALLBACK_FAIL,CALLBACK_INPROGRESS']]);
    expect(two.length).toBe(counts.CALLBACK_FAIL + counts.CALLBACK_INPROGRESS);
    const [first] = rows;
    for (const filter of ['workflowRunId', 'workflowUrl', 'workflowCreatedAt']) {
      const found = await walk(emulated, 'dlq', [[filter, String(first?.[filter])]]);
      expect(found).toEqual(rows.filter(row => row[filter] === first?.[filter]));
    }
  });

  test('failed workflow runs have the callback state in the fields that the dialect selects', async () => {
    const emulated = await emptyEmulator();
    const dlqId = emulated.state.addFailedRun({ callbackState: 'CALLBACK_FAIL', callbackStatus: 502 });
    const row = async (path: string) => (await ask(emulated, path)).body;
    const info = {
      state: 'CALLBACK_FAIL',
      responseStatus: 502,
      responseBody: 'Bad Gateway',
      responseHeaders: { 'Content-Type': ['text/plain; charset=utf-8'] },
    };
    const expected = {
      failureCallbackInfo: [info, undefined],
      failureFunctionState: [undefined, 'CALLBACK_FAIL'],
      both: [info, 'CALLBACK_FAIL'],
    } as const;
    for (const [name, [has, state]] of Object.entries(expected)) {
      emulated.dialect.callbackState = name as keyof typeof expected;
      for (const found of [await row(`/v2/dlq/${dlqId}`), (await row('/v2/workflows/dlq')).messages[0]]) {
        expect([found.failureCallbackInfo, found.failureFunctionState]).toEqual([has, state]);
      }
    }
  });

  test('failed workflow runs are excluded from the DLQ list if the dialect lists them separately', async () => {
    const emulated = await emulator();
    const all = await walk(emulated, 'dlq');
    expect(all).toEqual(emulated.state.dlqRows());
    emulated.dialect.dlqWorkflows = 'separate';
    expect(await walk(emulated, 'dlq')).toEqual(all.filter(row => !row.workflowRunId));
    const runs = all.filter(row => row.workflowRunId);
    expect(await walk(emulated, 'dlq', [['source', 'workflow']])).toEqual(runs);
    expect((await ask(emulated, '/v2/workflows/dlq')).body.messages).toEqual(runs.slice(0, 100));
  });

  test('failed workflow runs are merged with other dead letters in time order, each listed once, in both sort orders', async () => {
    const emulated = await emulator();
    const all = emulated.state.dlqRows();
    for (const [order, expected] of [
      ['earliestFirst', all],
      ['latestFirst', all.toReversed()],
    ] as const) {
      expect(
        await walk(emulated, 'dlq', [
          ['order', order],
          ['count', '7'],
        ]),
      ).toEqual(expected);
    }
  });

  test('failed workflow runs do not affect the seeded messages', () => {
    // Both scenarios generate the same messages.
    const [one, other] = [frozen({ seed: 9, scenario: 'outage' }), frozen({ seed: 9, scenario: 'stuck-callback' })];
    const messages = ({ state }: typeof one) => [
      state.dlqRows().filter(row => !row.workflowRunId),
      state.eventRows(),
      [...state.waitlists()],
    ];
    for (const row of other.state.dlqRows()) other.state.cancelCallback(row.dlqId);
    for (const each of [one, other]) each.clock.advance(HOUR);
    expect(messages(other)).toEqual(messages(one));
  });

  test('failed workflow runs do not depend on how often the state is read or on changes to other runs', () => {
    const runs = () => frozen({ seed: 4, scenario: 'stuck-callback' });
    const [rarely, often] = [runs(), runs()];
    const [victim] = often.state.dlqRows().filter(row => row.failureCallbackInfo?.state === 'CALLBACK_INPROGRESS');
    often.state.cancelCallback(victim?.dlqId as string);
    for (let step = 0; step < 20; step++) {
      often.clock.advance(HOUR / 4);
      often.state.countCallbacks();
    }
    rarely.clock.advance(5 * HOUR);
    const others = ({ state }: typeof often) =>
      state.dlqRows().filter(row => row.workflowRunId && row.dlqId !== victim?.dlqId);
    expect(others(often)).toEqual(others(rarely));
  });
});

describe('callbacks in the workload', () => {
  test('failed callbacks of the workload are processed again when they are retried', () => {
    const { clock, state } = frozen();
    const states = () => new Map(state.dlqRows().map(row => [row.dlqId, row.failureCallbackInfo?.state]));
    const failed = [...states()].filter(([, is]) => is === 'CALLBACK_FAIL').map(([dlqId]) => dlqId);
    expect(failed.length).toBeGreaterThan(0);
    for (const dlqId of failed) expect(state.retryCallback(dlqId)).toBe('done');
    for (const dlqId of failed) expect(states().get(dlqId)).toBe('CALLBACK_INPROGRESS');
    clock.advance(36 * HOUR);
    for (const dlqId of failed) expect(states().get(dlqId)).not.toBe('CALLBACK_INPROGRESS');
  });

  const inProgress = (emulated: ReturnType<typeof frozen>) =>
    emulated.state.dlqRows().filter(row => row.failureCallbackInfo?.state === 'CALLBACK_INPROGRESS');

  test('healthy callbacks of the workload may run for hours but eventually end; stuck ones never do', () => {
    const [healthy, stuck] = [frozen(), frozen({ scenario: 'stuck-callback' })];
    const [before, stuckBefore] = [inProgress(healthy), inProgress(stuck)];
    expect(before.length).toBeGreaterThan(3);
    const left = (emulated: typeof healthy, rows: typeof before) => {
      const now = new Set(inProgress(emulated).map(row => row.dlqId));
      return rows.filter(row => now.has(row.dlqId)).length;
    };
    for (const each of [healthy, stuck]) each.clock.advance(2 * HOUR);
    expect(left(healthy, before)).toBeGreaterThan(0);
    // The longest series of retries takes 30.7 hours plus the duration of its attempts.
    for (const each of [healthy, stuck]) each.clock.advance(34 * HOUR);
    expect(left(healthy, before)).toBe(0);
    expect(left(stuck, stuckBefore)).toBeGreaterThan(3);
    expect(inProgress(stuck).length).toBeGreaterThan(inProgress(healthy).length + 20);
  });

  test('callbacks of the workload are removed together with their entries when retention expires', () => {
    const { clock, state } = frozen({ scenario: 'stuck-callback' });
    const before = new Set(state.dlqRows().map(row => row.dlqId));
    clock.advance(DLQ_RETENTION_MS + HOUR);
    expect(state.dlqRows().filter(row => row.workflowRunId && before.has(row.dlqId))).toEqual([]);
    expect(state.countCallbacks().CALLBACK_INPROGRESS).toBeGreaterThan(5);
  });

  test('callbacks of the workload wait for the documented delay before each retry; only the workflow log contains the time of the next attempt', async () => {
    const emulated = await emulator();
    const waits = new Set<number>();
    const seen = new Map<string, number>();
    for (let step = 0; step < 400; step++) {
      const { body } = await ask(emulated, '/v2/workflows/logs?failureFunctionState=CALLBACK_INPROGRESS');
      for (const { failureFunction } of body.runs) {
        const { nextDeliveryTime, dlqId } = failureFunction;
        if (nextDeliveryTime === undefined || seen.get(dlqId) === nextDeliveryTime) continue;
        seen.set(dlqId, nextDeliveryTime);
        if (step > 0) waits.add(nextDeliveryTime - emulated.clock.now());
      }
      emulated.clock.advance(1000 * 10);
    }
    const documented = [12_182, 148_413, 1_808_042, 22_026_466, 86_400_000];
    expect(waits.size).toBeGreaterThan(3);
    for (const wait of waits) expect(documented.some(full => wait <= full && wait > full - 10_000)).toBe(true);
  });
});

test('GET /_emulator/state reports callbacks by state, and each cancel request with its result', async () => {
  const emulated: Emulator = await emptyEmulator({} satisfies EmulatorOptions);
  const dlqId = emulated.state.addFailedRun();
  emulated.state.addFailedRun({ callbackState: 'CALLBACK_FAIL' });
  await cancel(emulated, dlqId);
  await cancel(emulated, 'none');
  const { body } = await ask(emulated, '/_emulator/state');
  expect(body.callbacks).toEqual({
    byState: { CALLBACK_INPROGRESS: 0, CALLBACK_SUCCESS: 0, CALLBACK_FAIL: 1, CALLBACK_CANCELED: 1 },
    cancelCalls: [
      { at: NOON, dlqId, verdict: 'done' },
      { at: NOON, dlqId: 'none', verdict: 'unknown' },
    ],
  });
  expect(body.dlq).toMatchObject({ total: 2, ofWorkflows: 2 });
});

test('a row contains the URL of its failure callback if it has one', async () => {
  const { state } = await emptyEmulator();
  state.addFailedRun({ url: 'https://a.example/', failureCallback: 'https://reports.example/failed' });
  state.addFailedRun({ url: 'https://b.example/' });
  state.addFailedRun({ url: 'https://c.example/', callbackState: null });
  const urls = state.dlqRows().map(({ failureCallback }) => failureCallback);
  expect(new Set(urls)).toEqual(new Set(['https://reports.example/failed', 'https://b.example/', undefined]));
});
