import { expect, it } from 'vitest';
import type { Emulator } from '../../src/emulator/server.ts';
import { createAgent, unlimited } from '../support/agent.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { type HttpService, serve } from '../support/http-service.ts';

/** Creates an agent with a heartbeat to `/NAME-canary`. */
function beating(name: string, emulator: Emulator, receiver: HttpService) {
  const collect = { flowControl: { enabled: false }, dlq: { every: '200ms' }, events: { enabled: false } };
  const agent = createAgent(
    {
      accounts: [unlimited('a', emulator.url)],
      collect,
      staleness: { markAfter: 1000 },
      heartbeat: { url: { env: 'HEARTBEAT_URL' }, every: '200ms' },
    },
    { DELIVERY_TOKEN: emulator.token, HEARTBEAT_URL: `${receiver.url}/${name}-canary` },
  );
  const beats = (suffix = '') => receiver.requests.filter(each => each === `GET /${name}-canary${suffix}`).length;
  /** Waits for several more heartbeats. */
  async function beatsMore(suffix = '') {
    const before = beats(suffix);
    await eventually(() => expect(beats(suffix)).toBeGreaterThan(before + 3));
  }
  return { agent, beats, beatsMore };
}

it('the heartbeat is sent while the agent is working, reports failure when the token is rejected, and stops with the agent', async () => {
  const [emulator, other, receiver] = [
    await emulateEmpty(),
    await emulateEmpty(),
    await serve((_request, response) => void response.end('OK')),
  ];
  const [ours, witness] = [beating('ours', emulator, receiver), beating('witness', other, receiver)];
  await Promise.all([ours.agent.start(), witness.agent.start()]);
  await Promise.all([ours.beatsMore(), witness.beatsMore()]);
  expect(ours.beats('/fail')).toBe(0);

  ours.agent.process.kill('SIGSTOP');
  await witness.beatsMore();
  const stopped = ours.beats();
  await witness.beatsMore();
  expect(ours.beats()).toBe(stopped);
  ours.agent.process.kill('SIGCONT');
  await ours.beatsMore();

  emulator.faults.add({ endpoint: 'GET /v2/dlq', kind: 'status', status: 401 });
  await ours.beatsMore('/fail');
  const [healthyBeats] = [ours.beats()];
  await ours.beatsMore('/fail');
  expect(ours.beats()).toBe(healthyBeats);
  expect(
    await ours.agent.value('delivery_watch_notifications_total', { notifier: 'heartbeat', outcome: 'sent' }),
  ).toBeGreaterThan(8);

  const log = ours.agent.process.stderr();
  expect(log).toContain('the token of a is rejected');
  await ours.agent.end();
  const failed = ours.beats('/fail');
  await witness.beatsMore();
  expect([ours.beats(), ours.beats('/fail')]).toEqual([healthyBeats, failed]);
  expect(log + witness.agent.process.stderr()).not.toContain('canary');
});
