import { Client } from '@upstash/qstash';
import { Client as WorkflowClient } from '@upstash/workflow';
import { describe, expect, test, vi } from 'vitest';
import type { Emulator } from '../../src/emulator/server.ts';
import { toDlqEntry } from '../../src/upstream/wire.ts';
import { toServiceQueue, toServiceSchedule, toWorkflowRun } from '../../src/upstream/wire-service.ts';
import { emptyEmulator, emulator } from '../emulator/emulated.ts';

// The client also logs every error to the console.
vi.spyOn(console, 'error').mockImplementation(() => {});
vi.spyOn(console, 'warn').mockImplementation(() => {});

const messages = ({ url, token }: Emulator, as = token) =>
  new Client({ baseUrl: url, token: as, retry: false, enableTelemetry: false });
const workflows = ({ url, token }: Emulator) =>
  new WorkflowClient({ baseUrl: url, token, retry: false, enableTelemetry: false });
const idsOf = (rows: readonly { dlqId: string }[]) => rows.map(row => row.dlqId);
const cancelling = (dlqId: string) => ({
  method: 'DELETE' as const,
  path: ['v2', 'workflows', 'dlq', 'callback', dlqId],
  parseResponseAsJson: false,
});

describe('@upstash/qstash', () => {
  test('the client lists, deletes and retries DLQ messages', async () => {
    const emulated = await emptyEmulator();
    const { state } = emulated;
    const [a, b, c, d] = Array.from({ length: 4 }, () => state.addDlqEntry()) as [string, string, string, string];
    const { dlq } = messages(emulated);
    expect(idsOf((await dlq.listMessages()).messages)).toEqual([a, b, c, d]);
    expect(idsOf((await dlq.listMessages({ dlqIds: [b, c] })).messages)).toEqual([b, c]);
    await dlq.delete(a);
    expect(await dlq.delete([b])).toMatchObject({ deleted: 1 });
    expect(await dlq.deleteMany({ dlqIds: ['5-5'] })).toMatchObject({ deleted: 0 });
    const retried = await dlq.retry(c);
    expect(retried).toEqual({
      cursor: undefined,
      responses: [expect.objectContaining({ messageId: expect.any(String) })],
    });
    expect(idsOf(state.dlqRows())).toEqual([d]);
    expect(await dlq.delete({ all: true })).toMatchObject({ deleted: 1 });
    expect(state.calls()).toEqual({
      'GET /v2/dlq': 2,
      'DELETE /v2/dlq/{dlqId}': 1,
      'DELETE /v2/dlq': 3,
      'POST /v2/dlq/retry': 1,
    });
  });

  test('the client returns the destination’s response in the DLQ fields that the agent reads', async () => {
    type Row = Awaited<ReturnType<Client['dlq']['listMessages']>>['messages'][number];
    const emulated = await emptyEmulator();
    const body = 'order 7 is locked';
    emulated.state.addDlqEntry({ responseStatus: 409, responseBody: body, scheduleId: 'scd_1' });
    const [row] = (await messages(emulated).dlq.listMessages()).messages;
    expect(row).toMatchObject({ responseStatus: 409, responseBody: body, scheduleId: 'scd_1' });
    const entry = toDlqEntry(row, Date.now());
    expect(entry).toMatchObject({ responseStatus: 409, schedule: 'scd_1', errorClass: expect.any(String) });
    const packed: Partial<Row> = { dlqId: '1-0', responseBodyBase64: Buffer.from(body).toString('base64') };
    expect(toDlqEntry(packed, Date.now())?.errorClass).toBe(entry?.errorClass);
  });

  test('the client’s logs() returns events by message id, and its events() returns all events', async () => {
    const emulated = await emptyEmulator();
    for (const messageId of ['a', 'b', 'c']) emulated.state.addEvent({ messageId });
    const client = messages(emulated);
    const { logs } = await client.logs({ messageIds: ['a', 'c'] });
    expect(logs.map(row => row.messageId)).toEqual(['c', 'a']);
    expect((await client.events()).events.length).toBe(3);
  });

  test('the client reads, pauses and resumes flow-control keys', async () => {
    const emulated = await emulator({ dialect: { flowControlFields: 'all', flowControlKeySize: 'waitListSize' } });
    const { flowControl } = messages(emulated);
    const size = emulated.state.waitlists().get('mail/send');
    expect(await flowControl.get('mail/send')).toMatchObject({ flowControlKey: 'mail/send', waitListSize: size });
    await flowControl.pause('mail/send');
    expect(await flowControl.get('mail/send')).toMatchObject({ isPaused: true });
    await flowControl.resume('mail/send');
    expect(await flowControl.get('mail/send')).toMatchObject({ isPaused: false });
    expect(await flowControl.getGlobalParallelism()).toEqual({
      parallelismMax: 100,
      parallelismCount: expect.any(Number),
    });
    await expect(flowControl.get('none')).rejects.toMatchObject({ status: 404 });
  });

  test('the client lists, reads, pauses, resumes and deletes schedules', async () => {
    const emulated = await emptyEmulator();
    emulated.clock.advance(30 * 60_000);
    const { schedules } = messages(emulated);
    const all = await schedules.list();
    expect(all.map(({ scheduleId }) => scheduleId)).toEqual(['scd_7minutely', 'scd_3digest', 'scd_9monthend']);
    const minutely = await schedules.get('scd_7minutely');
    expect(minutely).toEqual(all[0]);
    expect(minutely).toMatchObject({ cron: '* * * * *', isPaused: false, lastScheduleTime: emulated.clock.now() });
    await schedules.pause({ schedule: 'scd_7minutely' });
    expect(await schedules.get('scd_7minutely')).toMatchObject({ isPaused: true });
    await schedules.resume({ schedule: 'scd_7minutely' });
    expect(await schedules.get('scd_7minutely')).toMatchObject({ isPaused: false });
    await schedules.delete('scd_7minutely');
    await expect(schedules.get('scd_7minutely')).rejects.toMatchObject({ status: 404 });
    const row = toServiceSchedule(all[2], emulated.clock.now(), text => text);
    expect(row).toMatchObject({ cron: '0 6 1 * *', tz: 'Europe/Berlin', labels: ['billing', 'month-end'] });
  });

  test('the client lists, reads, pauses and resumes queues', async () => {
    const emulated = await emptyEmulator();
    const client = messages(emulated);
    const queues = await client.queue().list();
    expect(queues.map(({ name }) => name)).toEqual(['emails', 'legacy', 'media']);
    const queue = client.queue({ queueName: 'emails' });
    await queue.pause();
    expect(await queue.get()).toMatchObject({ name: 'emails', lag: 0, parallelism: 200, paused: true });
    await queue.resume();
    expect(toServiceQueue(await queue.get(), emulated.clock.now())).toMatchObject({ paused: false, lag: 0 });
  });

  test('the client has no cancel call; its generic request method cancels a callback but throws for status 302', async () => {
    const emulated = await emptyEmulator();
    const { http } = messages(emulated);
    const [one, two] = [emulated.state.addFailedRun(), emulated.state.addFailedRun()];
    await expect(http.request(cancelling(one))).rejects.toMatchObject({ status: 302 });
    emulated.dialect.cancelAnswer = '202';
    await http.request(cancelling(two));
    expect(emulated.state.countCallbacks().CALLBACK_CANCELED).toBe(2);
    await expect(http.request(cancelling(two))).rejects.toMatchObject({ status: 400 });
    expect(emulated.state.cancels()).toEqual({ [one]: 1, [two]: 2 });
  });

  test('the client distinguishes a burst limit (429) from other errors and exposes its headers', async () => {
    const emulated = await emptyEmulator({ dialect: { requestsPerSecond: 1 } });
    const client = messages(emulated);
    await client.logs();
    await expect(client.logs()).rejects.toMatchObject({
      name: 'QstashRatelimitError',
      limit: '1',
      remaining: '0',
      reset: String(emulated.clock.now() / 1000 + 1),
    });
  });

  test('with the read-only token, the client can read but not delete', async () => {
    const emulated = await emptyEmulator();
    const client = messages(emulated, emulated.credentials.readOnlyToken);
    expect((await client.dlq.listMessages()).messages).toEqual([]);
    await expect(client.dlq.delete('1-1')).rejects.toMatchObject({ status: 403 });
  });
});

describe('@upstash/workflow', () => {
  test('dlq.list of the workflow client returns only failed runs, page by page and filtered by callback state or run', async () => {
    const emulated = await emulator();
    const { dlq } = workflows(emulated);
    const expected = emulated.state.dlqRows().filter(row => row.workflowRunId);
    const found = [];
    let cursor: string | undefined;
    do {
      const page = await dlq.list({ count: 10, ...(cursor ? { cursor } : {}) });
      found.push(...page.messages);
      cursor = page.cursor;
    } while (cursor);
    expect(idsOf(found)).toEqual(idsOf(expected));
    const inProgress = await dlq.list({ filter: { failureFunctionState: 'CALLBACK_INPROGRESS' } });
    expect(inProgress.messages.length).toBe(emulated.state.countCallbacks().CALLBACK_INPROGRESS);
    expect(inProgress.messages.length).toBeGreaterThan(0);
    for (const { failureCallbackInfo } of inProgress.messages)
      expect(failureCallbackInfo?.state).toBe('CALLBACK_INPROGRESS');
    const [run] = expected;
    const byRun = await dlq.list({ filter: { workflowRunId: run?.workflowRunId as string } });
    expect(idsOf(byRun.messages)).toEqual([run?.dlqId]);
  });

  test('the workflow client retries failure functions, and deletes, restarts and resumes failed runs', async () => {
    const emulated = await emptyEmulator();
    const { state } = emulated;
    const { dlq } = workflows(emulated);
    const [a, b, c] = ['wfr_a', 'wfr_b', 'wfr_c'].map(workflowRunId =>
      state.addFailedRun({ workflowRunId, callbackState: 'CALLBACK_FAIL' }),
    ) as [string, string, string];
    expect(await dlq.retryFailureFunction({ dlqId: a })).toMatchObject({ workflowRunId: 'wfr_a' });
    await expect(dlq.retryFailureFunction({ dlqId: a })).rejects.toMatchObject({ status: 400 });
    expect(state.countCallbacks()).toMatchObject({ CALLBACK_INPROGRESS: 1, CALLBACK_FAIL: 2 });
    expect(await dlq.delete(a)).toMatchObject({ deleted: 1 });
    expect(await dlq.restart({ dlqId: b })).toMatchObject({ workflowRunId: 'wfr_b' });
    expect((await dlq.resume([c])).workflowRuns).toMatchObject([{ workflowRunId: 'wfr_c' }]);
    expect(state.countDlq()).toBe(0);
  });

  test('the workflow client returns the log of a run with its callback and next delivery time', async () => {
    const emulated = await emptyEmulator();
    const nextDeliveryTime = emulated.clock.now() + 5000;
    const dlqId = emulated.state.addFailedRun({ workflowRunId: 'wfr_x', callbackRetries: 4, nextDeliveryTime });
    emulated.state.addFailedRun({ workflowRunId: 'wfr_other', callbackState: null });
    const { runs } = await workflows(emulated).logs({ filter: { workflowRunId: 'wfr_x' } });
    expect(runs).toMatchObject([
      {
        workflowRunId: 'wfr_x',
        workflowState: 'RUN_FAILED',
        failureFunction: { dlqId, state: 'CALLBACK_INPROGRESS', maxRetries: 4, nextDeliveryTime },
      },
    ]);
    expect((await workflows(emulated).logs()).runs.length).toBe(2);
  });

  test('the workflow client filters runs by state and walks their pages', async () => {
    const emulated = await emulator({ scenario: 'stuck-run' });
    const found = [];
    for (let cursor: string | undefined, first = true; first || cursor; first = false) {
      const page = await workflows(emulated).logs({ ...(cursor && { cursor }), filter: { state: 'RUN_STARTED' } });
      found.push(...page.runs);
      cursor = page.cursor;
    }
    const started = emulated.state.runs().filter(({ completedAt }) => completedAt === undefined);
    expect(found.map(({ workflowRunId }) => workflowRunId)).toEqual(started.map(run => run.workflowRunId).reverse());
    expect(found.length).toBeGreaterThan(10);
    expect(toWorkflowRun(found[0], emulated.clock.now())).toMatchObject({ state: 'started' });
  });
});
