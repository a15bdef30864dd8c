import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/kit/clock.ts';
import { createAgent, unlimited } from '../support/agent.ts';
import { runCli } from '../support/cli.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';

/** Starts the agent and an emulated service. Its clock and its Date header differ from the agent's clock (ms). */
async function setUp(ahead: number, dateMs = 0) {
  const clock = { ...systemClock, now: () => systemClock.now() + ahead };
  const emulator = await emulateEmpty({ clock, faults: [{ dateMs }] });
  const agent = createAgent(
    {
      store: { kind: 'memory' },
      accounts: [{ ...unlimited('a', emulator.url), retention: { dlq: '1h' } }],
      collect: {
        flowControl: { enabled: false },
        dlq: { every: '200ms' },
        events: { every: '200ms', overlap: '1s', window: '1m' },
      },
    },
    { DELIVERY_TOKEN: emulator.token },
  );
  await agent.start();
  const delivered = (id: string) =>
    emulator.state.addEvents(
      ['created', 'active', 'delivered'].map(state => ({ messageId: id, state, time: emulator.clock.now() })) as never,
    );
  return { emulator, agent, delivered };
}

describe.each([600_000, -600_000])('a service with its clock %d ms ahead', ahead => {
  it('the events of a service with a wrong clock are counted, and metric, report and page show the difference', async () => {
    const { agent, emulator, delivered } = await setUp(ahead);
    let added = 0;
    // Events of the first second may precede the start of the counters: the clock is known to the second.
    await eventually(async () => {
      added += 1;
      delivered(`msg_${added}`);
      expect(await agent.value('delivery_events_total', { state: 'delivered' })).toBeGreaterThan(2);
    });
    const recent = () => agent.value('delivery_events_recent', { state: 'delivered' });
    await eventually(async () => expect(await recent()).toBe(added));
    expect(await agent.value('delivery_event_log_late_total')).toBe(0);
    const skew = (await agent.value('delivery_service_clock_skew_seconds')) ?? 0;
    expect(Math.abs(skew - ahead / 1000)).toBeLessThan(5);
    const text = `The service’s clock is (9 min 5\\d s|10 min) ${ahead > 0 ? 'ahead of' : 'behind'} the agent’s`;
    expect(await agent.get('/accounts/a')).toMatch(new RegExp(text));
    const report = await runCli(['report', '--config', agent.configFile], { DELIVERY_TOKEN: emulator.token });
    expect(report.stdout.replaceAll(/\s+/g, ' ')).toMatch(new RegExp(text));
  });
});

it('a wrong Date header hides no events, and is ignored once an event contradicts it', async () => {
  const { agent, delivered } = await setUp(0, 600_000);
  await eventually(async () => expect(await agent.value('delivery_service_clock_skew_seconds')).toBeGreaterThan(590));
  delivered('msg_1');
  await eventually(async () => expect(await agent.value('delivery_service_clock_skew_seconds')).toBe(0));
  await eventually(async () => expect(await agent.value('delivery_events_recent', { state: 'delivered' })).toBe(1));
});
