import { Client } from '@upstash/qstash';
import { expect, it } from 'vitest';
import { dlqList, eventList, type List } from '../../src/lookup/lists.ts';
import { readNewest } from '../../src/lookup/read.ts';
import { createTestClient, TOKEN } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';

/**
 * Starts a service with 130 dead letters and events. Returns the official client, and a function that reads a list as the CLI
 * commands do.
 */
async function start() {
  const { url, state } = await emulateEmpty({ token: TOKEN });
  const now = Date.now();
  for (let age = 1; age <= 130; age += 1) {
    const enteredAt = now - age * 60_000;
    state.addDlqEntry({
      enteredAt,
      queueName: age % 3 ? 'a' : 'b',
      responseStatus: age % 2 ? 500 : 404,
      labels: [`l${age % 5}`],
    });
    state.addEvent({ messageId: `m${age % 7}`, time: enteredAt });
  }
  const { reader } = createTestClient(url);
  const client = new Client({ baseUrl: url, token: TOKEN, retry: false, enableTelemetry: false });
  const read = async <Row>(list: List<Row>) =>
    (await readNewest(list, reader, { limit: 1000, signal: new AbortController().signal })).rows.map(list.id);
  return { client, read };
}

it.each([
  {},
  { queueName: 'b' },
  { responseStatus: 500 },
  { queueName: 'a', responseStatus: 404 },
  { label: 'l3' },
  { fromDate: Date.now() - 30 * 60_000, toDate: Date.now() - 10 * 60_000 },
])('look-ups find the same dead letters as the official client with the filter %j', async filter => {
  const { client, read } = await start();
  const found: string[] = [];
  for (let cursor: string | undefined, first = true; first || cursor; first = false) {
    const page = await client.dlq.listMessages({ filter, count: 50, cursor } as Parameters<
      typeof client.dlq.listMessages
    >[0]);
    found.push(...page.messages.map(({ dlqId }) => dlqId));
    cursor = page.cursor;
  }
  expect(found.length).toBeGreaterThan(5);
  expect((await read(dlqList(filter))).toSorted()).toEqual(found.toSorted());
});

it('look-ups find the same events as the official client', async () => {
  const { client, read } = await start();
  const found = (await client.logs({ filter: { messageId: 'm3' } })).logs;
  expect(found.length).toBeGreaterThan(10);
  expect(await read(eventList({ messageId: 'm3' }))).toEqual(found.map(({ messageId }) => messageId));
  const all = (await client.logs({ count: 1000 })).logs;
  expect(await read(eventList({}))).toEqual(all.map(({ messageId }) => messageId));
});
