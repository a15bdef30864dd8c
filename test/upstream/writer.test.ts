import { describe, expect, it } from 'vitest';
import type { Dialect } from '../../src/emulator/dialect.ts';
import type { FaultSeed } from '../../src/emulator/faults.ts';
import type { Emulator } from '../../src/emulator/server.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { Secret } from '../../src/kit/secret.ts';
import { createBudget } from '../../src/upstream/budget.ts';
import { UpstreamError } from '../../src/upstream/errors.ts';
import { TOKEN } from '../support/client.ts';
import { emulate } from '../support/emulate.ts';
import { atThisLoad } from '../support/eventually.ts';
import { serve } from '../support/http-service.ts';
import { createTestWriter, ID } from './writing.ts';

const ENDPOINT = 'DELETE /v2/workflows/dlq/callback/{dlqId}';

async function emulateFailedRun(dialect: Partial<Dialect> = {}, fault?: FaultSeed) {
  const emulated = await emulate({
    speed: 0,
    history: 0,
    dlqEntries: 0,
    dialect,
    ...(fault && { faults: [{ endpoint: ENDPOINT, ...fault }] }),
  });
  const token = async () => new Secret(emulated.token);
  const dlqId = emulated.state.addFailedRun();
  return { emulated, dlqId, token };
}

const stateOf = ({ state }: Emulator, dlqId: string) =>
  state.dlqRows().find(row => row.dlqId === dlqId)?.failureCallbackInfo?.state;

/** Expects that the emulator received exactly one request, a DELETE of this entry. */
function expectOneDelete({ state }: Emulator, dlqId: string): void {
  expect(state.calls()).toEqual({ [ENDPOINT]: 1 });
  expect(state.cancelCalls).toMatchObject([{ dlqId }]);
}

describe('executed cancels', () => {
  it.each(['302', '302-location', '302-self', '302-foreign', '200', '202', '204'] as const)(
    'a cancel is accepted and sends no other request if the response is %s',
    async cancelAnswer => {
      const { emulated, dlqId, token } = await emulateFailedRun({ cancelAnswer });
      emulated.state.addDlqEntry();
      const { cancel, seen } = createTestWriter(emulated.url, { token });
      const status = Number.parseInt(cancelAnswer, 10);
      expect(await cancel(dlqId)).toEqual({ kind: 'accepted', status });
      expect(stateOf(emulated, dlqId)).toBe('CALLBACK_CANCELED');
      expectOneDelete(emulated, dlqId);
      expect(emulated.state.countDlq()).toBe(2);
      expect(seen).toMatchObject({ requests: { 'cancel ok': 1 }, timed: 1 });
    },
  );
});

describe('rejected cancels', () => {
  it('a cancel is refused if the service responds with 400, as for a callback that is not in progress', async () => {
    const { emulated, dlqId, token } = await emulateFailedRun({ cancelAnswer: '400' });
    const { cancel, seen } = createTestWriter(emulated.url, { token });
    expect(await cancel(dlqId)).toEqual({ kind: 'refused', status: 400 });
    expect(stateOf(emulated, dlqId)).toBe('CALLBACK_INPROGRESS');
    emulated.dialect.cancelAnswer = '302';
    const failed = emulated.state.addFailedRun({ callbackState: 'CALLBACK_FAIL' });
    expect(await cancel(failed)).toEqual({ kind: 'refused', status: 400 });
    expect(seen.requests).toEqual({ 'cancel refused': 2 });
  });

  it('a cancel has the result "missing" if the entry does not exist', async () => {
    const { emulated, token } = await emulateFailedRun();
    const { cancel, seen } = createTestWriter(emulated.url, { token });
    expect(await cancel('5-5')).toEqual({ kind: 'missing', status: 404 });
    expect(seen.requests).toEqual({ 'cancel not_found': 1 });
  });

  it.each(['403', '401'] as const)(
    'a cancel with the read-only token or a wrong one is denied and not retried (%s)',
    async status => {
      const { emulated, dlqId } = await emulateFailedRun({ readOnlyWrite: status });
      const reading = createTestWriter(emulated.url, {
        token: async () => new Secret(emulated.credentials.readOnlyToken),
      });
      expect(await reading.cancel(dlqId)).toEqual({ kind: 'denied', status: Number(status) });
      expectOneDelete(emulated, dlqId);
      expect(reading.seen.requests).toEqual({ [`cancel ${status === '403' ? 'forbidden' : 'unauthorized'}`]: 1 });
      const wrong = createTestWriter(emulated.url);
      expect(await wrong.cancel(dlqId)).toEqual({ kind: 'denied', status: 401 });
      expect(emulated.state.calls()).toEqual({ [ENDPOINT]: 2 });
    },
  );

  it('a cancel has the result "limited" after status 429, and the whole account waits for Retry-After', async () => {
    const { emulated, dlqId, token } = await emulateFailedRun({}, { kind: 'status', status: 429, retryAfter: 7 });
    const { cancel, seen, pauses } = createTestWriter(emulated.url, { token });
    expect(await cancel(dlqId)).toEqual({ kind: 'limited', status: 429, retryAfter: 7000 });
    expectOneDelete(emulated, dlqId);
    expect([pauses, seen.requests]).toEqual([[7000], { 'cancel rate_limited': 1 }]);
    emulated.faults.replace([{ kind: 'status', status: 429 }]);
    expect(await cancel(dlqId)).toEqual({ kind: 'limited', status: 429, retryAfter: 1000 });
  });

  it('a cancel is limited by the burst limit until its reset', async () => {
    const { emulated, dlqId, token } = await emulateFailedRun({ requestsPerSecond: 1, burstReset: 'milliseconds' });
    const { cancel, pauses } = createTestWriter(emulated.url, { token });
    expect(await cancel(dlqId)).toMatchObject({ kind: 'accepted' });
    expect(await cancel(dlqId)).toMatchObject({ kind: 'limited', retryAfter: expect.any(Number) });
    expect(pauses).toHaveLength(2);
  });
});

describe('lost responses', () => {
  it.each([
    [{ kind: 'status', status: 500 }, 500, 'server'],
    [{ kind: 'status', status: 503 }, 503, 'server'],
    [{ kind: 'reset' }, undefined, 'network'],
    [{ kind: 'hang' }, undefined, 'timeout'],
    [{ kind: 'html' }, 200, 'ok'],
  ] as const)(
    'a cancel has the result of its response, whether or not it was executed: %j',
    async (fault, status, outcome) => {
      for (const acts of [false, true]) {
        const { emulated, dlqId, token } = await emulateFailedRun({}, { ...fault, acts });
        const { cancel, seen } = createTestWriter(emulated.url, {
          token,
          timeout: fault.kind === 'hang' ? atThisLoad(500) : 60_000,
        });
        // An HTML page with a successful status counts as success: the body is not read.
        expect(await cancel(dlqId)).toEqual({ kind: fault.kind === 'html' ? 'accepted' : 'unknown', status });
        expect(stateOf(emulated, dlqId)).toBe(acts ? 'CALLBACK_CANCELED' : 'CALLBACK_INPROGRESS');
        expectOneDelete(emulated, dlqId);
        expect(seen.requests).toEqual({ [`cancel ${outcome}`]: 1 });
      }
    },
  );
});

describe('response statuses', () => {
  it.each([
    [201, 'unknown', 'invalid_response'],
    [206, 'unknown', 'invalid_response'],
    [301, 'unknown', 'invalid_response'],
    [303, 'unknown', 'invalid_response'],
    [307, 'unknown', 'invalid_response'],
    [308, 'unknown', 'invalid_response'],
    [402, 'denied', 'refused'],
    [405, 'denied', 'refused'],
    [408, 'unknown', 'timeout'],
    [410, 'denied', 'refused'],
    [499, 'denied', 'refused'],
    [501, 'unknown', 'server'],
    [599, 'unknown', 'server'],
  ] as const)('a cancel with status %i is %s, counted as %s', async (status, kind, outcome) => {
    const elsewhere = await serve((_request, response) => response.end());
    const service = await serve((_request, response) =>
      response.writeHead(status, { location: `${elsewhere.url}/v2/dlq/1-0` }).end('secret-body'),
    );
    const { cancel, seen } = createTestWriter(service.url);
    expect(await cancel()).toEqual({ kind, status });
    expect([service.requests.length, elsewhere.requests]).toEqual([1, []]);
    expect(seen.requests).toEqual({ [`cancel ${outcome}`]: 1 });
  });
});

describe('cancel request', () => {
  it('a cancel sends a DELETE for the entry to the regional URL, with the token, no body and action priority', async () => {
    const service = await serve((_request, response) => response.writeHead(302).end('12345'));
    const { cancel, seen, turns, spans } = createTestWriter(`${service.url}/eu//`);
    await cancel('a_B-9');
    expect(service.requests).toEqual(['DELETE /eu/v2/workflows/dlq/callback/a_B-9']);
    const [headers] = service.headers;
    expect(headers).toMatchObject({ authorization: `Bearer ${TOKEN}` });
    expect(headers).not.toHaveProperty('transfer-encoding');
    expect(turns).toEqual(['action']);
    expect(seen.bytes).toBe(5);
    expect(spans).toEqual([
      {
        name: ENDPOINT,
        'http.request.method': 'DELETE',
        'http.response.status_code': 302,
        'server.address': '127.0.0.1',
        'server.port': Number(new URL(service.url).port),
        'url.full': `${service.url}/eu/v2/workflows/dlq/callback/REDACTED`,
        'network.protocol.version': '1.1',
        'url.template': '/v2/workflows/dlq/callback/{dlqId}',
        outcome: 'ok',
      },
    ]);
  });

  it.each(['', '.', '..', '../dlq/1-0', '1/2', '1%2F2', '%2e%2e', '1?x', '1#x', ' 1', '1\n', 'é', 'x'.repeat(201)])(
    'a cancel is not sent for the id %j',
    async id => {
      const { cancel, turns, seen } = createTestWriter('http://127.0.0.1:9');
      expect(await cancel(id)).toEqual({ kind: 'not_sent', why: 'the id must be 1 to 200 of A-Z a-z 0-9 _ -' });
      expect([turns, seen.requests]).toEqual([[], {}]);
    },
  );

  it('a cancel is not sent without a token, a slot or budget', async () => {
    const service = await serve((_request, response) => response.end());
    const without = createTestWriter(service.url, {
      token: async () => {
        throw new UpstreamError('unauthorized', 'the token file t contains no token');
      },
    });
    expect(await without.cancel()).toEqual({ kind: 'not_sent', why: 'the token file t contains no token' });

    const limits = { requestsPerSecond: 1, burst: 1, concurrency: 1, requestsPerDay: 1 };
    const budget = createBudget(limits, systemClock, () => undefined);
    await budget.run('action', new AbortController().signal, async () => undefined);
    const spent = createTestWriter(service.url, { budget });
    expect(await spent.cancel()).toMatchObject({ kind: 'not_sent', why: expect.stringContaining('used up') });

    const busy = createBudget({ ...limits, requestsPerDay: 1000 }, systemClock, () => undefined);
    await busy.run('action', new AbortController().signal, async () => undefined);
    const controller = new AbortController();
    const waiting = createTestWriter(service.url, { budget: busy }).cancel(ID, controller.signal);
    controller.abort(new Error('the agent ends'));
    expect(await waiting).toEqual({ kind: 'not_sent', why: 'stopped before the request budget allowed it' });

    expect(service.requests).toEqual([]);
  });

  it('a cancel is not sent if `stop` returns a reason right before sending; `stop` is called only then', async () => {
    const service = await serve((_request, response) => response.end());
    const calls: number[] = [];
    const { cancel, seen } = createTestWriter(service.url);
    const stop = () => {
      calls.push(seen.timed);
      return calls.length === 1 ? 'stop_file' : undefined;
    };
    expect(await cancel(ID, undefined, stop)).toEqual({ kind: 'not_sent', why: 'stop_file' });
    expect(service.requests).toEqual([]);
    expect(await cancel(ID, undefined, stop)).toMatchObject({ kind: 'accepted' });
    expect([service.requests.length, calls.length]).toEqual([1, 2]);
  });

  it('errors that are bugs are thrown and not reported as unsent cancels', async () => {
    const service = await serve((_request, response) => response.end());
    const controller = new AbortController();
    const bug = new Error('a bug');
    const { cancel } = createTestWriter(service.url, {
      tracer: {
        async span(_name, _attributes, work) {
          await work({ set: () => undefined, fail: () => undefined });
          controller.abort();
          throw bug;
        },
      },
    });
    await expect(cancel(ID, controller.signal)).rejects.toBe(bug);
  });
});
