import { describe, expect, it, vi } from 'vitest';
import { parseConfig } from '../../src/config/load.ts';
import { Alerting } from '../../src/rules/alerting.ts';
import { AGENT_CHECKS } from '../../src/rules/checks/agent.ts';
import { runChecks } from '../../src/rules/checks/run.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { afterThisTest } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog, createTestTracer } from '../support/silent.ts';

const SECOND = 1000;
const MINUTE = 60_000;
const never = new AbortController().signal;

type Trouble = Partial<Parameters<(typeof AGENT_CHECKS)[number]['check']>[0]>;

/** Creates alerting with the checks of the agent. `run` sets their input. */
async function setUp({ isStandby = false } = {}) {
  const clock = createManualClock();
  const received: string[] = [];
  const hook = await serve((request, response) => {
    let body = '';
    request.on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      for (const { status, labels, annotations } of JSON.parse(body).alerts) {
        received.push(`${status} ${Object.values(labels).join(' ')}: ${annotations.summary}`);
      }
      json(response, {});
    });
  });
  const store = createMemoryStore();
  const deps = { env: {}, store, clock, random: () => 0, log: createTestLog(), tracer: createTestTracer() };
  const configOf = (alerts: object) =>
    parseConfig(
      JSON.stringify({
        accounts: [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'x' }],
        alerts: {
          enabled: true,
          notifiers: [{ name: 'hook', webhook: { url: hook.url, groupWait: '0s' } }],
          ...alerts,
        },
      }),
      'x.yaml',
    ).config;
  let trouble: Trouble = {};
  let alerting: Alerting;
  async function start(alerts: object = {}) {
    alerting = new Alerting(configOf(alerts), { ...deps, accounts: () => [] });
    const started = alerting;
    afterThisTest(() => started.close());
    if (!isStandby) await alerting.open('');
    await alerting.watchAgent(() =>
      runChecks(AGENT_CHECKS, {
        now: clock.now(),
        statuses: [],
        notifications: [],
        lastReload: undefined,
        ...trouble,
      }),
    );
  }
  await start();
  return {
    start,
    alerting: () => alerting,
    hook: hook.url,
    store,
    shown: () => alerting.alerts().map(({ labels, state }) => `${labels.alertname} ${state}`),
    async reload(alerts: object) {
      const config = configOf(alerts);
      await alerting.use(config, alerting.sending.prepare(config));
    },
    /** Evaluates this input every 15 seconds for `ms` and returns the notices sent. */
    async run(next: Trouble, ms = 15 * SECOND): Promise<readonly string[]> {
      trouble = next;
      const before = received.length;
      for (let passed = 0; passed < ms; passed += 15 * SECOND) {
        await clock.advance(15 * SECOND);
        for (const evaluate of alerting.evaluations) await evaluate(never);
        for (const send of alerting.sending.senders) await send(never);
      }
      return received.slice(before);
    },
  };
}

const FAILED = { notifications: [{ notifier: 'ops', outcome: 'failed', count: 1 }] } satisfies Trouble;
const FIRING = 'firing DeliveryStoreFailing database_away critical: The database is unavailable';

describe('alerts about the agent', () => {
  it('an alert about the agent has no account label and is sent when it fires and when it resolves', async () => {
    const { run, shown, alerting } = await setUp();
    expect(await run(FAILED, 10 * MINUTE)).toEqual([]);
    expect(await run(FAILED)).toEqual([
      'firing DeliveryOutputFailing ops notifications_failing critical: 1 notification to ops failed in the last 15 minutes, and none was delivered.',
    ]);
    expect(shown()).toEqual(['DeliveryOutputFailing firing']);
    const exposed = alerting().sources.filter(({ families }) =>
      families.some(({ name }) => name === 'delivery_problem'),
    );
    expect(exposed.map(({ account }) => account)).toEqual([undefined]);
    expect(exposed.flatMap(source => source.samples().get('delivery_problem') ?? [])).toEqual([
      { labels: { kind: 'notifications_failing', severity: 'critical', subject: 'ops' }, value: 1 },
    ]);
    expect(await run({}, 16 * MINUTE)).toEqual([
      expect.stringMatching(/^resolved DeliveryOutputFailing ops notifications_failing critical/),
    ]);
  });

  it('an alert about the agent is not sent again after a restart', async () => {
    const { run, start, shown } = await setUp();
    await run(FAILED, 11 * MINUTE);
    await start();
    expect(await run(FAILED, MINUTE)).toEqual([]);
    expect(shown()).toEqual(['DeliveryOutputFailing firing']);
  });

  it('an alert about the agent is sent to a new notifier even if the database cannot store the changed notifiers', async () => {
    const { run, reload, alerting, hook, store } = await setUp();
    vi.spyOn(store, 'commit').mockRejectedValue(new Error('the database is away'));
    await reload({ notifiers: [{ name: 'new', webhook: { url: `${hook}/new`, groupWait: '0s' } }] });
    expect(await run({ databaseAway: 0 }, 4 * MINUTE)).toHaveLength(1);
    expect(alerting().sending.notifications()).toContainEqual({ notifier: 'new', outcome: 'sent', count: 1 });
  });

  it('an alert about the agent is not evaluated by a standby, which has not opened the agent-wide rows', async () => {
    const { run, shown } = await setUp({ isStandby: true });
    expect(await run({ databaseAway: 0 }, 4 * MINUTE)).toEqual([]);
    expect(shown()).toEqual([]);
  });

  it('an alert about the agent appears in the alert states of each account, so that it can pause auto-cancel', async () => {
    const { run, alerting } = await setUp();
    const state = () => alerting().states('a').get('DeliveryStoreFailing');
    expect(state()).toBe('unknown');
    await run({});
    expect(state()).toBeUndefined();
    await run({ databaseAway: 0 }, 4 * MINUTE);
    expect(state()).toBe('firing');
  });

  it('an alert about the agent resolves when alerts are disabled', async () => {
    const { run, reload, shown } = await setUp();
    const [sent] = await run({ databaseAway: 0 }, 4 * MINUTE);
    expect(sent).toContain(FIRING);
    await reload({ enabled: false });
    expect(await run({ databaseAway: 0 }, MINUTE)).toEqual([
      expect.stringMatching(/^resolved DeliveryStoreFailing database_away critical/),
    ]);
    expect(shown()).toEqual([]);
  });
});
