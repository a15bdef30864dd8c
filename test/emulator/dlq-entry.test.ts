import { expect, test } from 'vitest';
import type { Emulator } from '../../src/emulator/server.ts';
import { ask, emptyEmulator, emulator } from './emulated.ts';

const send = (to: Emulator, method: string, path: string) =>
  ask(to, path, { method, headers: { authorization: `Bearer ${to.token}` } });
const ids = (of: Emulator) => of.state.dlqRows().map(row => row.dlqId);

test('a single dead letter, of a message or of a workflow run, can be read and deleted by id', async () => {
  const emulated = await emptyEmulator();
  const [letter, run] = [emulated.state.addDlqEntry({ label: 'x' }), emulated.state.addFailedRun()];
  for (const dlqId of [letter, run]) {
    const row = emulated.state.dlqRows().find(each => each.dlqId === dlqId);
    expect(await ask(emulated, `/v2/dlq/${dlqId}`)).toMatchObject({ status: 200, body: row });
  }
  for (const [dlqId, left] of [
    [letter, [run]],
    [run, []],
  ] as const) {
    expect(await send(emulated, 'DELETE', `/v2/dlq/${dlqId}`)).toMatchObject({ status: 200, text: '' });
    expect(ids(emulated)).toEqual(left);
    for (const method of ['GET', 'DELETE'])
      expect(await send(emulated, method, `/v2/dlq/${dlqId}`)).toMatchObject({
        status: 404,
        body: { error: expect.any(String) },
      });
  }
});

test('a retried dead letter is published again and processed', async () => {
  const emulated = await emulator();
  const [before] = emulated.state.dlqRows();
  const { status, body } = await send(emulated, 'POST', `/v2/dlq/retry?dlqIds=${before?.dlqId}`);
  const [retried] = body.responses;
  expect([status, retried]).toEqual([201, { messageId: expect.stringMatching(/^msg_/), url: before?.url }]);
  expect(ids(emulated)).not.toContain(before?.dlqId);
  const states = () =>
    emulated.state
      .eventRows()
      .filter(row => row.messageId === retried.messageId)
      .map(row => row.state);
  expect(states()).toEqual(['created']);
  emulated.clock.advance(3_600_000);
  expect(states().at(-1)).toMatch(/delivered|failed|retry|cancelled/);
  expect((await send(emulated, 'POST', `/v2/dlq/retry?dlqIds=${before?.dlqId}`)).body.responses).toEqual([]);
});

test('a dead letter added by a test is republished with the fields set by the test', async () => {
  const emulated = await emptyEmulator();
  const dlqId = emulated.state.addDlqEntry({ url: 'https://own.example/' });
  const { body } = await send(emulated, 'POST', `/v2/dlq/retry?dlqIds=${dlqId}`);
  expect(body).toEqual({ cursor: '', responses: [{ messageId: expect.any(String), url: 'https://own.example/' }] });
  emulated.clock.advance(10_000);
  const rows = emulated.state.eventRows().filter(row => row.messageId === body.responses[0].messageId);
  expect(rows.map(row => row.state)).toEqual(['created', 'active', 'delivered']);
});

test('DELETE removes matching dead letters, or all if no filter is given, one page per request', async () => {
  const emulated = await emptyEmulator();
  const { state } = emulated;
  for (let index = 0; index < 130; index++) state.addDlqEntry({ label: index % 13 === 0 ? 'odd' : 'even' });
  const run = state.addFailedRun({ callbackState: 'CALLBACK_FAIL' });
  expect((await send(emulated, 'DELETE', '/v2/dlq?label=odd')).body).toEqual({ cursor: '', deleted: 10 });
  expect(state.countDlq(row => row.label === 'odd')).toBe(0);
  const first = (await send(emulated, 'DELETE', '/v2/dlq?count=100')).body;
  expect(first).toEqual({ cursor: expect.stringMatching(/./), deleted: 100 });
  expect((await send(emulated, 'DELETE', '/v2/dlq')).body).toEqual({ cursor: '', deleted: 21 });
  expect(state.countDlq()).toBe(0);
  expect(run).toBeDefined();
});

test('deleting and restarting failed workflow runs does not affect other dead letters', async () => {
  const emulated = await emptyEmulator();
  const { state } = emulated;
  const letter = state.addDlqEntry();
  state.addFailedRun({ workflowRunId: 'wfr_a' });
  state.addFailedRun({ workflowRunId: 'wfr_b', callbackState: 'CALLBACK_FAIL' });
  state.addFailedRun({ workflowRunId: 'wfr_c', callbackState: null });
  expect((await send(emulated, 'DELETE', '/v2/workflows/dlq?failureFunctionState=CALLBACK_FAIL')).body.deleted).toBe(1);
  const [a] = ids(emulated).slice(1);
  expect((await send(emulated, 'POST', `/v2/workflows/dlq/restart?dlqIds=${a}`)).body).toEqual({
    cursor: '',
    workflowRuns: [{ workflowRunId: 'wfr_a', workflowCreatedAt: emulated.clock.now() }],
  });
  expect((await send(emulated, 'DELETE', `/v2/workflows/dlq?dlqIds=${letter}`)).body.deleted).toBe(0);
  expect((await send(emulated, 'DELETE', '/v2/workflows/dlq')).body).toEqual({ cursor: '', deleted: 1 });
  expect(ids(emulated)).toEqual([letter]);
});
