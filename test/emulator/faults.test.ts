import { describe, expect, test } from 'vitest';
import { type FaultSeed, startEmulator } from '../../src/emulator/server.ts';
import { eventually } from '../support/eventually.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { ask, emptyEmulator } from './emulated.ts';

const post = (url: string, body: unknown) =>
  fetch(`${url}/_emulator/faults`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

/** What a client gets of a body, and why it got no more. */
async function read(url: string, token: string, init: RequestInit = {}) {
  let text = '';
  try {
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` }, ...init });
    const announced = Number(response.headers.get('content-length'));
    const decoder = new TextDecoder();
    try {
      for await (const chunk of response.body ?? []) text += decoder.decode(chunk, { stream: true });
      return { status: response.status, text, announced };
    } catch (error) {
      return { status: response.status, text, announced, broke: (error as Error).message };
    }
  } catch (error) {
    return { text, refused: ((error as Error).cause as { code?: string })?.code };
  }
}

describe('on the wire', () => {
  test.each([500, 502, 503, 599])('an error status %s', async status => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'status', status }] });
    expect(await ask(emulated, '/v2/dlq')).toMatchObject({ status, body: { error: 'service unavailable' } });
    expect(emulated.state.calls()).toEqual({ 'GET /v2/dlq': 1 });
  });

  test('503 when no status is said', async () => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'status' }] });
    expect((await ask(emulated, '/v2/dlq')).status).toBe(503);
  });

  test('a page instead of JSON', async () => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'html' }] });
    const { status, text, body } = await ask(emulated, '/v2/dlq');
    expect([status, body]).toEqual([200, undefined]);
    expect(text).toContain('<!DOCTYPE html>');
  });

  test('a connection reset', async () => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'reset' }] });
    expect(await read(`${emulated.url}/v2/dlq`, emulated.token)).toEqual({ text: '', refused: 'ECONNRESET' });
  });

  test('half a body, of which the whole length was announced', async () => {
    const emulated = await emptyEmulator();
    for (let entry = 0; entry < 20; entry++) emulated.state.addDlqEntry();
    const { text: whole } = await ask(emulated, '/v2/dlq');
    emulated.faults.add({ kind: 'truncate' });
    const got = await read(`${emulated.url}/v2/dlq`, emulated.token);
    expect(got).toMatchObject({ status: 200, announced: whole.length, broke: 'terminated' });
    expect(got.text).toBe(whole.slice(0, got.text.length));
    expect(got.text.length).toBe(whole.length >> 1);
  });

  test('no answer, until the emulator is closed', async () => {
    const emulated = await startEmulator({ clock: createManualClock(), faults: [{ kind: 'hang' }] });
    let answered = false;
    const asked = read(`${emulated.url}/v2/dlq`, emulated.token).finally(() => {
      answered = true;
    });
    await eventually(() => expect(emulated.state.calls()).toEqual({ 'GET /v2/dlq': 1 }));
    // Somebody who asks later is answered earlier.
    emulated.faults.clear();
    expect((await ask(emulated, '/v2/dlq')).status).toBe(200);
    expect(answered).toBe(false);
    // The clock stands still, so that nothing but closing can end it.
    await emulated.close();
    expect(await asked).toMatchObject({ text: '' });
  });

  test('no answer, and a client that gives up', async () => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'hang' }] });
    const controller = new AbortController();
    const asked = read(`${emulated.url}/v2/dlq`, emulated.token, { signal: controller.signal });
    await eventually(() => expect(emulated.state.calls()).toEqual({ 'GET /v2/dlq': 1 }));
    controller.abort();
    expect(await asked).toMatchObject({ text: '' });
  });

  test('latency and jitter', async () => {
    const clock = createManualClock();
    const emulated = await startEmulator({ clock, faults: [{ latencyMs: 5000, jitterMs: 1000 }] });
    const asked = ask(emulated, '/v2/flowControl');
    await eventually(() => expect(clock.sleepers).toBe(1));
    await clock.advance(5000);
    expect(clock.sleepers).toBe(1);
    await clock.advance(1000);
    expect((await asked).status).toBe(200);
    await emulated.close();
  });

  test('a body byte by byte', async () => {
    const clock = createManualClock();
    const emulated = await startEmulator({ clock, history: 0, dlqEntries: 0, faults: [{ kind: 'drip', dripMs: 50 }] });
    const response = await fetch(`${emulated.url}/v2/dlq`, { headers: { authorization: `Bearer ${emulated.token}` } });
    expect(response.status).toBe(200);
    const whole = '{"messages":[]}';
    const reader = response.body?.getReader();
    for (const byte of whole) {
      await eventually(() => expect(clock.sleepers).toBe(1));
      await clock.advance(50);
      const { value } = (await reader?.read()) ?? {};
      expect(Buffer.from(value ?? []).toString()).toBe(byte);
    }
    expect(await reader?.read()).toMatchObject({ done: true });
    await emulated.close();
  });

  test('a drip that nobody waits for, and one that closing ends', async () => {
    const clock = createManualClock();
    const emulated = await startEmulator({ clock, faults: [{ kind: 'drip' }] });
    const headers = { authorization: `Bearer ${emulated.token}` };
    const controller = new AbortController();
    await fetch(`${emulated.url}/v2/dlq`, { headers, signal: controller.signal });
    await eventually(() => expect(clock.sleepers).toBe(1));
    controller.abort();
    await eventually(() => expect(clock.sleepers).toBe(0));
    const left = read(`${emulated.url}/v2/dlq`, emulated.token);
    await eventually(() => expect(clock.sleepers).toBe(1));
    await emulated.close();
    expect(await left).toMatchObject({ broke: 'terminated' });
  });
});

describe('whether a spoilt request takes effect', () => {
  test.each(['status', 'hang', 'reset', 'html'] as const)('%s: only when told so', async kind => {
    const emulated = await emptyEmulator();
    const cancel = async (fault: FaultSeed) => {
      const dlqId = emulated.state.addFailedRun();
      emulated.faults.replace([fault]);
      const signal = new AbortController();
      const before = emulated.faults.list()[0]?.struck;
      const asked = read(`${emulated.url}/v2/workflows/dlq/callback/${dlqId}`, emulated.token, {
        method: 'DELETE',
        redirect: 'manual',
        signal: signal.signal,
      });
      await eventually(() => expect(emulated.faults.list()[0]?.struck).toBe((before ?? 0) + 1));
      signal.abort();
      const { text } = await asked;
      expect(text).not.toContain('CALLBACK');
      return emulated.state.dlqRows().find(row => row.dlqId === dlqId)?.failureCallbackInfo?.state;
    };
    expect(await cancel({ kind })).toBe('CALLBACK_INPROGRESS');
    expect(emulated.state.cancels()).toEqual({});
    expect(await cancel({ kind, acts: true })).toBe('CALLBACK_CANCELED');
  });
});

describe('which requests are struck', () => {
  test('those of one endpoint, so often', async () => {
    const emulated = await emptyEmulator({ faults: [{ endpoint: 'GET /v2/dlq', kind: 'status', times: 2 }] });
    const statuses = [];
    for (const path of ['/v2/events', '/v2/dlq', '/v2/dlq', '/v2/dlq', '/v2/flowControl'])
      statuses.push((await ask(emulated, path)).status);
    expect(statuses).toEqual([200, 503, 503, 200, 200]);
    expect(emulated.faults.list()).toMatchObject([{ struck: 2 }]);
  });

  test('a share of them, drawn by the seed', async () => {
    const statuses = async (seed: number) => {
      const emulated = await emptyEmulator({ seed, faults: [{ kind: 'status', share: 0.4 }] });
      const found = [];
      for (let request = 0; request < 100; request++) found.push((await ask(emulated, '/v2/flowControl')).status);
      return found;
    };
    const [one, again, other] = [await statuses(1), await statuses(1), await statuses(2)];
    expect(again).toEqual(one);
    expect(other).not.toEqual(one);
    const failed = one.filter(status => status === 503).length;
    expect(failed).toBeGreaterThan(20);
    expect(failed).toBeLessThan(60);
  });

  test('the first that strikes is the only one, and what was added can be taken away', async () => {
    const emulated = await emptyEmulator();
    const remove = emulated.faults.add({ kind: 'status', status: 500 });
    emulated.faults.add({ kind: 'status', status: 501 });
    const status = async () => (await ask(emulated, '/v2/dlq')).status;
    expect(await status()).toBe(500);
    remove();
    expect(await status()).toBe(501);
    emulated.faults.clear();
    expect(await status()).toBe(200);
  });

  test('never what the emulator itself answers', async () => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'reset' }] });
    for (const path of ['/', '/_emulator/state', '/_emulator/faults', '/_emulator/log', '/_emulator/dialect'])
      expect((await ask(emulated, path)).status).toBe(200);
  });
});

describe('POST /_emulator/faults', () => {
  test('replaces the faults, GET shows them, DELETE takes them away', async () => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'hang' }] });
    const fault = { kind: 'status', status: 502, endpoint: 'GET /v2/dlq' };
    const listed = { faults: [{ fault, struck: 0 }] };
    expect(await (await post(emulated.url, fault)).json()).toEqual(listed);
    expect((await ask(emulated, '/_emulator/faults')).body).toEqual(listed);
    expect((await ask(emulated, '/v2/dlq')).status).toBe(502);
    expect((await ask(emulated, '/_emulator/state')).body.faults).toEqual([{ fault, struck: 1 }]);
    expect(await (await post(emulated.url, [fault, { latencyMs: 0 }])).json()).toMatchObject({ faults: [{}, {}] });
    expect((await ask(emulated, '/_emulator/faults', { method: 'DELETE' })).body).toEqual({ faults: [] });
  });

  test.each([
    [{ kind: 'explode' }, 'invalid fault: kind: Invalid option'],
    [{ share: 2 }, 'invalid fault: share: '],
    [[{ kind: 'hang' }, { endpiont: 'x' }], 'endpiont'],
    ['text', 'invalid fault: '],
  ])('refuses %j, and nothing changes', async (body, reason) => {
    const emulated = await emptyEmulator();
    const answer = await post(emulated.url, body);
    expect(answer.status).toBe(400);
    const { error } = (await answer.json()) as { error: string };
    if (typeof body !== 'string') expect(error).toContain(reason);
    expect(emulated.faults.list()).toEqual([]);
  });
});
