import { Client } from '@upstash/qstash';
import { Client as WorkflowClient } from '@upstash/workflow';
import { describe, expect, test } from 'vitest';
import type { FaultSeed } from '../../src/emulator/faults.ts';
import type { Emulator } from '../../src/emulator/server.ts';
import { eventually } from '../support/eventually.ts';
import { ask, emptyEmulator, NOON } from './emulated.ts';

const PATH = '/v2/workflows/dlq/callback';
const ENDPOINT = `DELETE ${PATH}/{dlqId}`;

function cancel(to: Emulator, dlqId: string, init: RequestInit = {}): Promise<Response> {
  const headers = { authorization: `Bearer ${to.token}` };
  return fetch(`${to.url}${PATH}/${dlqId}`, { method: 'DELETE', redirect: 'manual', headers, ...init });
}

const stateOf = ({ state }: Emulator, dlqId: string) =>
  state.dlqRows().find(row => row.dlqId === dlqId)?.failureCallbackInfo?.state;

describe('Location of a cancel', () => {
  test('the Location of a cancel response may be the request URL itself, so following it sends the cancel twice', async () => {
    const emulated = await emptyEmulator({ dialect: { cancelAnswer: '302-self' } });
    const dlqId = emulated.state.addFailedRun();
    const answer = await cancel(emulated, dlqId);
    expect([answer.status, answer.headers.get('location')]).toEqual([302, `${PATH}/${dlqId}`]);
    const other = emulated.state.addFailedRun();
    expect((await cancel(emulated, other, { redirect: 'follow' })).status).toBe(400);
    expect(emulated.state.cancels()).toEqual({ [dlqId]: 1, [other]: 2 });
  });

  test('the Location of a cancel response may be the URL of a dead letter under another host name of the emulator', async () => {
    const emulated = await emptyEmulator({ dialect: { cancelAnswer: '302-foreign' } });
    const [trap, dlqId] = [emulated.state.addDlqEntry(), emulated.state.addFailedRun()];
    const { headers } = await cancel(emulated, dlqId);
    const { port } = new URL(emulated.url);
    expect(headers.get('location')).toBe(`http://localhost:${port}/v2/dlq/${trap}`);
    expect(stateOf(emulated, dlqId)).toBe('CALLBACK_CANCELED');
    const again = await fetch(`http://localhost:${port}${PATH}/${emulated.state.addFailedRun()}`, {
      method: 'DELETE',
      redirect: 'manual',
      headers: { authorization: `Bearer ${emulated.token}` },
    });
    expect(again.headers.get('location')).toBe(`http://127.0.0.1:${port}/v2/dlq/${trap}`);
  });
});

test('a cancel of a callback in progress may be rejected as invalid, and the callback continues', async () => {
  const emulated = await emptyEmulator({ dialect: { cancelAnswer: '400' } });
  const dlqId = emulated.state.addFailedRun();
  const answer = await cancel(emulated, dlqId);
  expect(answer.status).toBe(400);
  expect(await answer.json()).toMatchObject({ error: expect.stringContaining('callback information is invalid') });
  expect(stateOf(emulated, dlqId)).toBe('CALLBACK_INPROGRESS');
  expect((await cancel(emulated, 'none')).status).toBe(404);
});

test('if rows have no callback states, a cancel still succeeds for a callback in progress and is rejected for any other', async () => {
  const emulated = await emptyEmulator({ dialect: { callbackState: 'absent' } });
  const [stuck, failed] = [
    emulated.state.addFailedRun(),
    emulated.state.addFailedRun({ callbackState: 'CALLBACK_FAIL' }),
  ];
  for (const path of ['/v2/dlq', '/v2/workflows/dlq', '/v2/workflows/logs', `/v2/dlq/${stuck}`]) {
    const { status, text } = await ask(emulated, path);
    expect([status, text.includes(stuck)]).toEqual([200, true]);
    expect(text).not.toMatch(/CALLBACK_|failureCallbackInfo|failureFunction/);
  }
  expect((await cancel(emulated, stuck)).status).toBe(302);
  expect((await cancel(emulated, stuck)).status).toBe(400);
  expect((await cancel(emulated, failed)).status).toBe(400);
  expect([stateOf(emulated, stuck), stateOf(emulated, failed)]).toEqual(['CALLBACK_CANCELED', 'CALLBACK_FAIL']);
});

test('a cancel may be rejected with 429, with and without Retry-After', async () => {
  const fault: FaultSeed = { endpoint: ENDPOINT, kind: 'status', status: 429 };
  const emulated = await emptyEmulator({ faults: [{ ...fault, times: 1, retryAfter: 7 }, fault] });
  const answers = [await cancel(emulated, '1-0'), await cancel(emulated, '1-0')];
  expect(answers.map(({ status, headers }) => [status, headers.get('retry-after')])).toEqual([
    [429, '7'],
    [429, null],
  ]);
});

describe('list of cancel requests', () => {
  test('the list of cancel requests contains every request in order of arrival, and the result of each processed request', async () => {
    const emulated = await emptyEmulator();
    const [stuck, failed] = [
      emulated.state.addFailedRun(),
      emulated.state.addFailedRun({ callbackState: 'CALLBACK_FAIL' }),
    ];
    await cancel(emulated, stuck);
    emulated.clock.advance(1000);
    await cancel(emulated, failed);
    await cancel(emulated, 'none');
    await cancel(emulated, stuck, { headers: { authorization: 'Bearer wrong' } });
    await cancel(emulated, stuck, { headers: { authorization: `Bearer ${emulated.credentials.readOnlyToken}` } });
    await cancel(emulated, '%');
    await fetch(`${emulated.url}${PATH}/${failed}`, { method: 'POST' });
    const at = NOON + 1000;
    expect((await ask(emulated, '/_emulator/state')).body.callbacks.cancelCalls).toEqual([
      { at: NOON, dlqId: stuck, verdict: 'done' },
      { at, dlqId: failed, verdict: 'refused' },
      { at, dlqId: 'none', verdict: 'unknown' },
      { at, dlqId: stuck },
      { at, dlqId: stuck },
      { at, dlqId: '%' },
    ]);
  });

  test.each([
    ['status', undefined],
    ['status', 'done'],
    ['hang', undefined],
    ['hang', 'done'],
    ['reset', undefined],
    ['reset', 'done'],
  ] as const)(
    'the list of cancel requests contains requests disrupted by %s, with result %s',
    async (kind, verdict) => {
      const emulated = await emptyEmulator({ faults: [{ endpoint: ENDPOINT, kind, acts: verdict === 'done' }] });
      const dlqId = emulated.state.addFailedRun();
      const controller = new AbortController();
      const response = cancel(emulated, dlqId, { signal: controller.signal }).catch(() => undefined);
      const calls = [{ at: NOON, dlqId, ...(verdict && { verdict }) }];
      await eventually(() => expect(emulated.state.cancelCalls).toEqual(calls));
      controller.abort();
      await response;
      expect(stateOf(emulated, dlqId)).toBe(verdict ? 'CALLBACK_CANCELED' : 'CALLBACK_INPROGRESS');
    },
  );
});

test('the official clients can read rows and retry a failed callback under several values of the dialect option callbackState', async () => {
  for (const callbackState of ['failureCallbackInfo', 'both', 'absent'] as const) {
    const emulated = await emptyEmulator({ dialect: { callbackState } });
    const { url: baseUrl, token } = emulated;
    const [stuck, failed] = [
      emulated.state.addFailedRun(),
      emulated.state.addFailedRun({ callbackState: 'CALLBACK_FAIL' }),
    ];
    const qstash = new Client({ baseUrl, token, retry: false, enableTelemetry: false });
    expect((await qstash.dlq.listMessages()).messages.map(row => row.dlqId)).toEqual([stuck, failed]);
    const workflow = new WorkflowClient({ baseUrl, token, retry: false, enableTelemetry: false });
    const { messages } = await workflow.dlq.list();
    const states = callbackState === 'absent' ? [undefined, undefined] : ['CALLBACK_INPROGRESS', 'CALLBACK_FAIL'];
    expect(messages.map(row => row.failureCallbackInfo?.state)).toEqual(states);
    await workflow.dlq.retryFailureFunction({ dlqId: failed });
    expect(stateOf(emulated, failed)).toBe('CALLBACK_INPROGRESS');
  }
});
