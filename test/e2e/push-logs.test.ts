import { describe, expect, it } from 'vitest';
import { traceIdOf } from '../../src/model/lifecycle-trace.ts';
import { createAgent, unlimited } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { type ReceivedLog, startLogReceiver } from '../support/otlp-log-receiver.ts';

const SECRET = 'canary-secret';
const TOKEN = 'canary-receiver-token';

/** An emulated service with one dead letter, a receiver, and an agent between them that knows it. */
async function setUp() {
  const emulator = await emulateEmpty();
  const receiver = await startLogReceiver();
  afterThisTest(() => receiver.close());
  const add = (name: string) =>
    emulator.state.addDlqEntry({
      messageId: `msg_${name}`,
      url: `https://user:${SECRET}@api.example.com/${SECRET}?key=${SECRET}`,
      responseStatus: 503,
      responseBody: SECRET,
    });
  add('first');
  const agent = createAgent(
    {
      accounts: [{ ...unlimited('a', emulator.url), retention: { dlq: '7d' } }],
      collect: {
        flowControl: { enabled: false },
        dlq: { every: '200ms', rescanEvery: '1s' },
        events: { enabled: false },
      },
      push: { logs: { enabled: true, endpoint: receiver.url, headers: { authorization: { env: 'RECEIVER_TOKEN' } } } },
    },
    { DELIVERY_TOKEN: emulator.token, RECEIVER_TOKEN: TOKEN },
  );
  const counted = (name: string) => agent.value(`delivery_dlq_${name}_total`, { account: 'a' });
  async function start(): Promise<void> {
    await agent.start();
    await eventually(async () => expect(await agent.value('delivery_dlq_messages')).toBeGreaterThan(0));
  }
  return { emulator, receiver, agent, add, counted, start };
}

const idsOf = (logs: readonly ReceivedLog[]) => logs.map(({ attributes }) => attributes['log.record.uid']);
const messagesOf = (logs: readonly ReceivedLog[], event: string) =>
  logs.filter(each => each.event === event).map(({ attributes }) => attributes['messaging.message.id']);

describe('log records of dead letters', () => {
  it('come once for each that is counted, across SIGKILL while the receiver is down, and hold nothing of what it carries', async () => {
    const { emulator, receiver, agent, add, counted, start } = await setUp();
    receiver.answer(503);
    await start();
    const before = Date.now();
    const second = add('second');
    await eventually(async () => expect(await counted('entered')).toBe(1));
    await agent.end('SIGKILL');
    add('third');
    await start();
    await eventually(async () => expect(await counted('entered')).toBe(2));
    await agent.end('SIGKILL');
    receiver.answer(200);
    await start();
    await eventually(() => expect(receiver.logs).toHaveLength(2));
    expect(messagesOf(receiver.logs, 'delivery.dlq.entered').sort()).toEqual(['msg_second', 'msg_third']);
    const [entered] = receiver.logs.filter(({ attributes }) => attributes['messaging.message.id'] === 'msg_second');
    expect(entered).toMatchObject({
      service: 'message-delivery',
      severity: 'ERROR ERROR',
      traceId: traceIdOf('a', 'msg_second'),
      spanId: '',
      hasBody: false,
      attributes: {
        'delivery.account': 'a',
        'delivery.dlq.id': second,
        'messaging.system': 'message_delivery',
        'messaging.destination.name': 'api.example.com',
        'server.address': 'api.example.com',
        'server.port': 443,
        'url.scheme': 'https',
        'http.response.status_code': 503,
        'error.type': '503',
      },
    });
    expect(entered?.at).toBeGreaterThanOrEqual(before);
    expect(entered?.observed).toBeGreaterThanOrEqual(entered?.at ?? 0);
    // One that leaves is known by its ids, also to a process that never saw it come.
    emulator.state.removeDlqEntry(second);
    await eventually(() => expect(messagesOf(receiver.logs, 'delivery.dlq.left')).toEqual(['msg_second']));
    expect(receiver.logs.at(-1)).toMatchObject({
      at: 0,
      severity: 'INFO INFO',
      attributes: { 'delivery.dlq.id': second, 'delivery.dlq.left_reason': 'removed' },
    });
    expect(new Set(idsOf(receiver.logs)).size).toBe(receiver.logs.length);
    expect(await agent.value('delivery_watch_push_items_total', { signal: 'logs', outcome: 'exported' })).toBe(3);
    expect(receiver.requests.at(-1)).toMatchObject({ path: '/v1/logs', headers: { authorization: TOKEN } });
    for (const secret of [SECRET, Buffer.from(SECRET).toString('base64')]) {
      expect(receiver.raw().includes(secret), secret).toBe(false);
    }
    expect(agent.process.stderr()).not.toContain(TOKEN);
    expect(await agent.end('SIGTERM')).toBe(0);
  });
});
