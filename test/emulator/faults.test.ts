import { describe, expect, test } from 'vitest';
import type { FaultSeed } from '../../src/emulator/faults.ts';
import { startEmulator } from '../../src/emulator/server.ts';
import { eventually } from '../support/eventually.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { ask, emptyEmulator } from './emulated.ts';

/** Returns the received part of a response body, and the error that ended it, if any. */
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

describe('faults on the wire', () => {
  test.each([500, 502, 503, 599])('a fault responds with error status %s', async status => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'status', status }] });
    expect(await ask(emulated, '/v2/dlq')).toMatchObject({ status, body: { error: 'service unavailable' } });
    expect(emulated.state.calls()).toEqual({ 'GET /v2/dlq': 1 });
  });

  test('a fault of kind status responds with 503 by default', async () => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'status' }] });
    expect((await ask(emulated, '/v2/dlq')).status).toBe(503);
  });

  test('a fault responds with an HTML page instead of JSON', async () => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'html' }] });
    const { status, text, body } = await ask(emulated, '/v2/dlq');
    expect([status, body]).toEqual([200, undefined]);
    expect(text).toContain('<!DOCTYPE html>');
  });

  test('a fault changes the Date header of an otherwise correct response', async () => {
    const { url, token } = await emptyEmulator({ faults: [{ dateMs: -600_000 }] });
    const response = await fetch(`${url}/v2/events`, { headers: { authorization: `Bearer ${token}` } });
    expect([response.status, response.headers.get('date')]).toEqual([200, 'Sat, 14 Mar 2026 11:50:00 GMT']);
    expect(await response.json()).toMatchObject({ events: [] });
  });

  test('a fault resets the connection', async () => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'reset' }] });
    expect(await read(`${emulated.url}/v2/dlq`, emulated.token)).toEqual({ text: '', refused: 'ECONNRESET' });
  });

  test('a fault sends only half of a body, with the Content-Length of the whole body', async () => {
    const emulated = await emptyEmulator();
    for (let entry = 0; entry < 20; entry++) emulated.state.addDlqEntry();
    const { text: whole } = await ask(emulated, '/v2/dlq');
    emulated.faults.add({ kind: 'truncate' });
    const got = await read(`${emulated.url}/v2/dlq`, emulated.token);
    expect(got).toMatchObject({ status: 200, announced: whole.length, broke: 'terminated' });
    expect(got.text).toBe(whole.slice(0, got.text.length));
    expect(got.text.length).toBe(whole.length >> 1);
  });

  test('a fault leaves requests without a response until the emulator is closed', async () => {
    const emulated = await startEmulator({ clock: createManualClock(), faults: [{ kind: 'hang' }] });
    let answered = false;
    const response = read(`${emulated.url}/v2/dlq`, emulated.token).finally(() => {
      answered = true;
    });
    await eventually(() => expect(emulated.state.calls()).toEqual({ 'GET /v2/dlq': 1 }));
    // A later request gets its response first.
    emulated.faults.clear();
    expect((await ask(emulated, '/v2/dlq')).status).toBe(200);
    expect(answered).toBe(false);
    // The clock is frozen, so only closing can end the request.
    await emulated.close();
    expect(await response).toMatchObject({ text: '' });
  });

  test('a fault leaves requests without a response until the client disconnects', async () => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'hang' }] });
    const controller = new AbortController();
    const response = read(`${emulated.url}/v2/dlq`, emulated.token, { signal: controller.signal });
    await eventually(() => expect(emulated.state.calls()).toEqual({ 'GET /v2/dlq': 1 }));
    controller.abort();
    expect(await response).toMatchObject({ text: '' });
  });

  test('a fault delays a response by its latency', async () => {
    const clock = createManualClock();
    const emulated = await startEmulator({ clock, faults: [{ latencyMs: 5000 }] });
    const response = ask(emulated, '/v2/flowControl');
    await eventually(() => expect(clock.sleepers).toBe(1));
    await clock.advance(4999);
    expect(clock.sleepers).toBe(1);
    await clock.advance(1);
    expect((await response).status).toBe(200);
    await emulated.close();
  });

  test('a fault sends a body byte by byte', async () => {
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

  test('a slow body ends when the client disconnects or the emulator is closed', async () => {
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

describe('effects of disrupted requests', () => {
  test.each(['status', 'hang', 'reset', 'html'] as const)(
    'a request disrupted by a fault of kind %s takes effect only if the fault has the option acts',
    async kind => {
      const emulated = await emptyEmulator();
      const cancel = async (fault: FaultSeed) => {
        const dlqId = emulated.state.addFailedRun();
        emulated.faults.replace([fault]);
        const signal = new AbortController();
        const before = emulated.state.cancelCalls.length;
        const response = read(`${emulated.url}/v2/workflows/dlq/callback/${dlqId}`, emulated.token, {
          method: 'DELETE',
          redirect: 'manual',
          signal: signal.signal,
        });
        await eventually(() => expect(emulated.state.cancelCalls.length).toBe(before + 1));
        signal.abort();
        const { text } = await response;
        expect(text).not.toContain('CALLBACK');
        return emulated.state.dlqRows().find(row => row.dlqId === dlqId)?.failureCallbackInfo?.state;
      };
      expect(await cancel({ kind })).toBe('CALLBACK_INPROGRESS');
      expect(emulated.state.cancels()).toEqual({});
      expect(await cancel({ kind, acts: true })).toBe('CALLBACK_CANCELED');
    },
  );
});

describe('scope of a fault', () => {
  test('a fault affects only requests to its endpoint, and only the configured number of times', async () => {
    const emulated = await emptyEmulator({ faults: [{ endpoint: 'GET /v2/dlq', kind: 'status', times: 2 }] });
    const statuses = [];
    for (const path of ['/v2/events', '/v2/dlq', '/v2/dlq', '/v2/dlq', '/v2/flowControl'])
      statuses.push((await ask(emulated, path)).status);
    expect(statuses).toEqual([200, 503, 503, 200, 200]);
  });

  test('a fault affects the configured fraction of requests, and the seed determines which ones', async () => {
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

  test('only the first matching fault applies to a request, and a fault can be removed', async () => {
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

  test("a fault never affects the emulator's internal endpoints", async () => {
    const emulated = await emptyEmulator({ faults: [{ kind: 'reset' }] });
    for (const path of ['/', '/_emulator/state']) expect((await ask(emulated, path)).status).toBe(200);
  });
});
