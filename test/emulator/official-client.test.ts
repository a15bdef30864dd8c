import { Client } from '@upstash/qstash';
import { expect, test } from 'vitest';
import type { Emulator } from '../../src/emulator/server.ts';
import { emptyEmulator, emulator, enteredAt, NOON } from './emulated.ts';

const clientOf = ({ url, token }: Emulator) =>
  new Client({ baseUrl: url, token, retry: false, enableTelemetry: false });

type Filter =
  NonNullable<Parameters<Client['dlq']['listMessages']>[0]> extends infer O
    ? O extends { filter?: infer F }
      ? NonNullable<F>
      : never
    : never;

async function allDlq(client: Client, filter: Filter = {}) {
  const rows = [];
  let cursor: string | undefined;
  do {
    const page = await client.dlq.listMessages({ count: 40, filter, ...(cursor ? { cursor } : {}) });
    rows.push(...page.messages);
    cursor = page.cursor;
  } while (cursor);
  return rows;
}

type LogsRequest = NonNullable<Parameters<Client['logs']>[0]>;

async function allLogs(client: Client, filter: NonNullable<LogsRequest['filter']> = {}) {
  const rows = [];
  let cursor: string | undefined;
  do {
    const page = await client.logs({ count: 700, filter, ...(cursor ? { cursor } : {}) });
    rows.push(...page.logs);
    cursor = page.cursor;
  } while (cursor);
  return rows;
}

const idsOf = (rows: readonly { dlqId: string }[]) => rows.map(row => row.dlqId);

test('the official client reads all pages of the DLQ', async () => {
  const emulated = await emulator();
  const rows = await allDlq(clientOf(emulated));
  expect(idsOf(rows)).toEqual(idsOf(emulated.state.dlqRows()));
  expect(rows.find(row => row.urlGroup)?.urlGroup).toBe('orders');
});

test('the official client filters the DLQ', async () => {
  const emulated = await emulator();
  const client = clientOf(emulated);
  const { state } = emulated;
  const filters: [Filter, (row: ReturnType<typeof state.dlqRows>[number]) => boolean][] = [
    [{ urlGroup: 'orders' }, row => row.topicName === 'orders'],
    [{ queueName: 'legacy' }, row => row.queueName === 'legacy'],
    [{ responseStatus: 404 }, row => row.responseStatus === 404],
    [{ label: 'media' }, row => row.label === 'media'],
    [{ url: 'https://media.example.com/thumbnails' }, row => row.url === 'https://media.example.com/thumbnails'],
    [{ fromDate: new Date(NOON - 7_200_000) }, row => enteredAt(row) >= NOON - 7_200_000],
    [{ queueName: 'legacy', responseStatus: [404, 410] }, row => row.queueName === 'legacy' && row.responseStatus > 0],
  ];
  for (const [filter, keep] of filters) {
    const expected = state.dlqRows().filter(keep);
    expect(expected.length).toBeGreaterThan(0);
    expect(idsOf(await allDlq(client, filter))).toEqual(idsOf(expected));
  }
  const two = idsOf(state.dlqRows()).slice(3, 5);
  expect(idsOf((await client.dlq.listMessages({ dlqIds: two })).messages)).toEqual(two);
});

test('the official client reads all pages of the log and filters it', async () => {
  const emulated = await emulator({ history: 40 * 60_000 });
  const client = clientOf(emulated);
  const latestFirst = emulated.state.eventRows().reverse();
  const keys = (rows: readonly { messageId: string; state: string; time: number | string }[]) =>
    rows.map(row => `${row.messageId} ${row.state} ${row.time}`);
  expect(keys(await allLogs(client))).toEqual(keys(latestFirst));
  const inProgress = latestFirst.filter(row => ['active', 'retry', 'error'].includes(row.state));
  expect(keys(await allLogs(client, { state: 'IN_PROGRESS' }))).toEqual(keys(inProgress));
  const failedOrders = latestFirst.filter(row => row.state === 'failed' && row.topicName === 'orders');
  expect(keys(await allLogs(client, { state: 'FAILED', urlGroup: 'orders' }))).toEqual(keys(failedOrders));
  const [first] = latestFirst;
  const ofFirst = latestFirst.filter(row => row.messageId === first?.messageId);
  expect(keys((await client.logs({ messageIds: [first?.messageId as string] })).logs)).toEqual(keys(ofFirst));
});

test('the official client reads the flow-control keys and reports an invalid token', async () => {
  const emulated = await emptyEmulator();
  emulated.state.setWaitlist('a/b "c"', 12);
  const answer = await clientOf(emulated).http.request({ path: ['v2', 'flowControl'] });
  expect(answer).toEqual({ flowControls: [{ flowControlKey: 'a/b "c"', waitListSize: 12 }] });
  const stranger = new Client({ baseUrl: emulated.url, token: 'wrong', retry: false, enableTelemetry: false });
  await expect(stranger.dlq.listMessages()).rejects.toMatchObject({
    status: 401,
    message: '{"error":"unable to authenticate: invalid token"}',
  });
});
