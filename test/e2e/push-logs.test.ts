import { readFileSync, writeFileSync } from 'node:fs';
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

describe('a receiver of log records', () => {
  it('that never answers, answers without an end, fails or refuses holds up nothing, and loses nothing but what it refuses', async () => {
    const { receiver, agent, add, counted, start } = await setUp();
    receiver.answer('hang');
    await start();
    add('waits');
    await eventually(() => expect(receiver.requests).toHaveLength(1));
    add('more');
    await eventually(async () => expect(await counted('entered')).toBe(2));
    // What never gets an answer is not waited for at the end, and is sent by the next process.
    expect(await agent.end('SIGTERM')).toBe(0);
    receiver.answer(500);
    await start();
    await eventually(() => expect(receiver.requests.length).toBeGreaterThan(1));
    receiver.answer('endless');
    const failed = receiver.requests.length;
    await eventually(() => expect(receiver.requests.length).toBeGreaterThan(failed));
    // The status is an answer, however long the body is.
    const taken = () => agent.value('delivery_watch_push_items_total', { signal: 'logs', outcome: 'exported' });
    await eventually(async () => expect(await taken()).toBe(2));
    receiver.answer(400);
    add('refused');
    const rejected = () => agent.value('delivery_watch_push_items_total', { signal: 'logs', outcome: 'rejected' });
    await eventually(async () => expect(await rejected()).toBe(1));
    receiver.answer(200);
    add('last');
    await eventually(() => expect(receiver.logs).toHaveLength(1));
    expect(messagesOf(receiver.logs, 'delivery.dlq.entered')).toEqual(['msg_last']);
    expect(await agent.end('SIGTERM')).toBe(0);
  });

  it('gets the agent’s alerts, and nothing while a reload has switched log records off', async () => {
    const { emulator, receiver, agent, add, counted } = await setUp();
    const config = JSON.parse(readFileSync(agent.configFile, 'utf8'));
    const when = { above: { metric: 'delivery_dlq_messages', value: 1 } };
    config.alerts = {
      enabled: true,
      evaluateEvery: '1s',
      rules: [{ name: 'Letters', when, labels: { severity: 'critical' } }],
    };
    const use = (isOn: boolean) => {
      config.push.logs.enabled = isOn;
      writeFileSync(agent.configFile, JSON.stringify(config));
    };
    const reloaded = async (digests: number) =>
      eventually(() =>
        expect(agent.process.stderr().match(/configuration is reloaded|reloaded/g) ?? []).toHaveLength(digests),
      );
    use(true);
    await agent.start();
    await eventually(async () => expect(await agent.value('delivery_dlq_messages')).toBe(1));
    const second = add('second');
    await eventually(() =>
      expect(receiver.logs.map(({ event }) => event).sort()).toEqual(['delivery.alert.firing', 'delivery.dlq.entered']),
    );
    expect(receiver.logs.find(({ event }) => event === 'delivery.alert.firing')).toMatchObject({
      service: 'delivery-watch',
      severity: 'ERROR ERROR',
      attributes: {
        'delivery.alert.name': 'Letters',
        'delivery.alert.label.severity': 'critical',
        'delivery.account': 'a',
      },
    });
    use(false);
    agent.process.kill('SIGHUP');
    await reloaded(1);
    add('unseen');
    await eventually(async () => expect(await counted('entered')).toBe(2));
    use(true);
    agent.process.kill('SIGHUP');
    await reloaded(2);
    emulator.state.removeDlqEntry(second);
    await eventually(() => expect(messagesOf(receiver.logs, 'delivery.dlq.left')).toEqual(['msg_second']));
    expect(messagesOf(receiver.logs, 'delivery.dlq.entered')).toEqual(['msg_second']);
  });
});
