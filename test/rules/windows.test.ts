import { describe, expect, it } from 'vitest';
import type { Account } from '../../src/agent/account.ts';
import { parseConfig } from '../../src/config/load.ts';
import { Recorder } from '../../src/history/recorder.ts';
import type { Sample, Source } from '../../src/metrics/family.ts';
import { Alerting } from '../../src/rules/alerting.ts';
import { evaluateCondition } from '../../src/rules/evaluate-condition.ts';
import { createAlertEvidence, createAlertFacts, createSelection, windowsOf } from '../../src/rules/facts.ts';
import { createCollectorState } from '../../src/scheduler/board.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog, createTestTracer } from '../support/silent.ts';

const [SECOND, MINUTE] = [1000, 60_000];
const never = new AbortController().signal;
const START = Date.UTC(2026, 0, 1);

const rule = (name: string, when: object, more: object = {}) => ({ name, when, ...more });
const growth = { metric: 'delivery_dlq_messages', over: '1h', atLeast: 10 };
/** A rule that never fires, so that its alert is either inactive or unknown. */
const NEVER = [rule('Never', { growth: { ...growth, atLeast: 1000 } })];
const ofOutcome = (outcome: string[]) => ({ metric: 'delivery_watch_api_requests_total', labels: { outcome } });

/** Creates an account and an agent for it. Tests can kill the agent and set its wall clock. */
function setUp(first: readonly object[]) {
  const configOf = (rules: readonly object[]) =>
    parseConfig(
      JSON.stringify({
        accounts: [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'x' }],
        alerts: { enabled: true, rules },
      }),
      'x.yaml',
    ).config;
  let config = configOf(first);
  const inner = createMemoryStore();
  let isBroken = false;
  const scan: typeof inner.scan = (...which) => (isBroken ? Promise.reject(new Error('disk')) : inner.scan(...which));
  const sizes: typeof inner.sizes = (...which) =>
    isBroken ? Promise.reject(new Error('disk')) : inner.sizes(...which);
  const store = { ...inner, scan, sizes };
  const log = createTestLog();
  const time = { wall: START, monotonic: 0 };
  const service = { messages: 0, asked: 0, failed: 0, isPartial: false, isDown: false };

  async function start() {
    const startedAt = time.monotonic;
    const clock = {
      now: () => time.wall,
      monotonic: () => time.monotonic - startedAt + 5,
      sleep: () => Promise.resolve(),
    };
    const rounds = { new: { every: 30_000 }, full: { every: 30_000 } };
    const state = createCollectorState({ account: 'a', collector: 'dlq' }, rounds, config.staleness, clock);
    // Process counters start at 0.
    const before = { asked: service.asked, failed: service.failed };
    const requests = (outcome: string, value: number): Sample => ({ labels: { endpoint: 'dlq', outcome }, value });
    const source: Source = {
      account: 'a',
      families: [
        { name: 'delivery_dlq_messages', type: 'gauge', help: '', labels: [] },
        { name: 'delivery_watch_api_requests_total', type: 'counter', help: '', labels: ['endpoint', 'outcome'] },
      ],
      revision: () => Symbol('always another'),
      samples: () =>
        new Map([
          ['delivery_dlq_messages', [{ labels: {}, value: service.messages }]],
          [
            'delivery_watch_api_requests_total',
            [requests('ok', service.asked - before.asked), requests('server', service.failed - before.failed)],
          ],
        ]),
    };
    const history = await Recorder.open({ account: 'a', store, clock, log });
    history.use({ keep: 48 * 60 * MINUTE, maxBytes: 1e6 });
    const account = {
      name: 'a',
      history,
      state: (collector: string) => (collector === 'dlq' ? state : undefined),
    } as unknown as Account;
    const common = { env: {}, store, clock, random: () => 0, log, tracer: createTestTracer() };
    const alerting = new Alerting(config, { ...common, accounts: () => [] });
    for (const name of ['', 'a']) await alerting.open(name);
    await alerting.evaluate(account, [source]);
    const windows = config.alerts.rules.flatMap(({ when }) => windowsOf(when));
    const selection = createSelection(windows, createAlertFacts(account, [source]));
    return {
      history,
      async evaluate() {
        if (!service.isDown) {
          for (const round of ['new', 'full']) {
            state.observed(round, { at: time.wall, facts: {} });
            state.succeeded(round, { durationSeconds: 1, partial: service.isPartial });
          }
        }
        for (const body of alerting.evaluations) await body(never);
        return `${[...alerting.states('a').values()].join() || 'not'} ${alerting.alerts().map(({ state, value }) => `${state} ${value}`)}`.trim();
      },
      /** Records a sample and commits it, as a save of the account does. */
      async sample() {
        const { values, unstored } = selection();
        await history.sample(values, { unstored });
        const changes = history.unsaved();
        await store.commit('a', changes);
        history.saved(changes);
      },
    };
  }
  let agent = start();
  const pass = (ms: number) => {
    time.wall += ms;
    time.monotonic += ms;
  };
  return {
    service,
    log,
    time,
    pass,
    /** Runs the agent for `minutes` and returns its last result. */
    async run(minutes: number, each: () => void = () => undefined) {
      let last = '';
      for (let minute = 0; minute < minutes; minute += 1) {
        each();
        await (await agent).sample();
        for (let second = 0; second < 60; second += 15) {
          pass(15 * SECOND);
          last = await (await agent).evaluate();
        }
      }
      return last;
    },
    async evaluate() {
      return (await agent).evaluate();
    },
    /** Makes all reads of the store fail. */
    break() {
      isBroken = true;
    },
    /** Kills the agent and starts another after `down` minutes. */
    async restart(down = 0, rules = first) {
      pass(down * MINUTE);
      config = configOf(rules);
      agent = start();
      await agent;
    },
  };
}

describe('restarts', () => {
  it('growth is evaluated from the recorded history immediately after a restart', async () => {
    const scene = setUp([rule('Grows', { growth }, { for: '30m' })]);
    const grow = () => {
      scene.service.messages += 1;
    };
    expect(await scene.run(59, grow)).toBe('unknown');
    // Each sample contains the growth of the minute that it begins.
    expect(await scene.run(11, grow)).toBe('not pending 59');
    await scene.restart();
    expect(await scene.evaluate()).toBe('not pending 59');
    await scene.restart(1);
    expect(await scene.run(24, grow)).toMatch(/^firing firing (58|59|60)$/);
    await scene.restart();
    expect(await scene.evaluate()).toMatch(/^firing firing (58|59|60)$/);
    expect(scene.log.lines.filter(({ message }) => message === 'bug')).toEqual([]);
  });

  it('a rule is unknown after a restart until the account is read', async () => {
    const scene = setUp(NEVER);
    expect(await scene.run(70)).toBe('not');
    scene.service.isDown = true;
    await scene.restart();
    expect(await scene.evaluate()).toBe('unknown');
    scene.service.isDown = false;
    expect(await scene.evaluate()).toBe('not');
  });

  it('a ratio continues after a restart although process counters were reset to 0', async () => {
    const ratio = { part: ofOutcome(['server']), whole: ofOutcome(['ok', 'server']), over: '1h', above: 0.1 };
    const scene = setUp([rule('Failing', { ratio })]);
    const ask = () => {
      scene.service.asked += 3;
      scene.service.failed += 1;
    };
    expect(await scene.run(65, ask)).toBe('firing firing 0.25');
    await scene.restart();
    expect(await scene.run(5, ask)).toBe('firing firing 0.25');
    await scene.restart();
    expect(await scene.run(20, ask)).toBe('firing firing 0.25');
  });
});

describe('windows', () => {
  it('a growth condition is unknown only if its window starts while the agent was down', async () => {
    const scene = setUp(NEVER);
    expect(await scene.run(90)).toBe('not');
    await scene.restart(20);
    // The window starts at minute 50; the agent was down from minute 90 to 110.
    expect(await scene.evaluate()).toBe('not');
    expect(await scene.run(38)).toBe('not');
    expect(await scene.run(3)).toBe('unknown');
    expect(await scene.run(18)).toBe('unknown');
    expect(await scene.run(2)).toBe('not');
  });

  it('a growth condition is unknown if its window starts before the first sample', async () => {
    const scene = setUp(NEVER);
    await scene.run(30);
    await scene.restart();
    expect(await scene.run(29)).toBe('unknown');
    expect(await scene.run(2)).toBe('not');
  });

  it('a growth condition is unknown if its window starts while rows were unreadable', async () => {
    const scene = setUp(NEVER);
    await scene.run(10);
    scene.service.isPartial = true;
    await scene.run(20);
    scene.service.isPartial = false;
    await scene.run(50);
    await scene.restart();
    // The window starts at minute 20.
    expect(await scene.evaluate()).toBe('unknown');
    expect(await scene.run(9)).toBe('unknown');
    expect(await scene.run(3)).toBe('not');
  });

  it('a growth condition is unknown while its window contains a change of the wall clock, also after a restart', async () => {
    const scene = setUp(NEVER);
    expect(await scene.run(80)).toBe('not');
    scene.time.wall += 30 * MINUTE;
    expect(await scene.run(10)).toBe('unknown');
    await scene.restart();
    expect(await scene.evaluate()).toBe('unknown');
    expect(await scene.run(49)).toBe('unknown');
    expect(await scene.run(2)).toBe('not');
  });

  it('a growth condition is unknown after a restart if its series was not recorded', async () => {
    const scene = setUp(NEVER);
    await scene.run(70);
    await scene.restart(0, [rule('Another', { growth: { ...growth, ...ofOutcome(['ok']) } })]);
    expect(await scene.evaluate()).toBe('unknown');
    await scene.restart(0, [rule('Longer', { growth: { ...growth, over: '65m', atLeast: 1000 } })]);
    expect(await scene.evaluate()).toBe('not');
  });

  it('a window of more than 90 minutes starts empty if the history cannot be read', async () => {
    const scene = setUp([rule('Never', { growth: { ...growth, over: '3h', atLeast: 1000 } })]);
    expect(await scene.run(200)).toBe('not');
    await scene.restart();
    expect(await scene.evaluate()).toBe('not');
    await scene.restart();
    scene.break();
    expect(await scene.evaluate()).toBe('unknown');
    expect(scene.log.lines.map(({ message }) => message)).toContain(
      'failed to read history; windows of more than 90 minutes start empty',
    );
  });

  it('a ratio over four hours counts all increases, and is unknown if a counter was reset while the agent was down', async () => {
    const ratio = { part: ofOutcome(['server']), whole: ofOutcome(['ok', 'server']), over: '4h', above: 0.1 };
    const scene = setUp([rule('Failing', { ratio }), rule('Never', { ratio: { ...ratio, above: 0.9 } })]);
    let isFailing = true;
    const ask = () => {
      scene.service.asked += 1;
      scene.service.failed += Number(isFailing);
    };
    await scene.run(120, ask);
    await scene.restart();
    isFailing = false;
    // The first sample in the window already contains two requests.
    expect(await scene.run(121, ask)).toBe(`firing firing ${118 / (360 - 3)}`);
    await scene.restart(3);
    expect(await scene.run(2, ask)).toMatch(/^firing,unknown/);
  });

  it('a window shorter than two minutes uses the values of each evaluation, and starts empty after a restart', async () => {
    const scene = setUp([rule('Grows', { growth: { ...growth, over: '30s', atLeast: 3 } })]);
    const step = async (by: number) => {
      scene.service.messages += by;
      scene.pass(15 * SECOND);
      return scene.evaluate();
    };
    expect(await step(0)).toBe('unknown');
    expect(await step(2)).toBe('unknown');
    expect(await step(2)).toBe('firing firing 4');
    expect(await step(0)).toBe('not resolved 4');
    await scene.restart();
    expect(await step(9)).toMatch(/^unknown/);
  });

  it.each([
    [1000, 'not'],
    [1001, 'unknown'],
  ])('a window of %i series is %s after a restart', async (count, expected) => {
    const clock = createManualClock();
    const store = createMemoryStore();
    const selector = { metric: 'delivery_flow_control_waitlist_size', labels: {} };
    const condition = { kind: 'growth', ...selector, over: 5 * MINUTE, atLeast: 1 } as const;
    const series = Array.from({ length: count }, (_, key) => ({ labels: { flow_control_key: `${key}` }, value: key }));
    const facts = { series: () => series, isPartial: () => false, isInconclusive: () => false };
    const open = async () => {
      const history = await Recorder.open({ account: 'a', store, clock, log: createTestLog() });
      history.use({ keep: 48 * 60 * MINUTE, maxBytes: 1e7 });
      return { history, evidence: createAlertEvidence([condition], facts, clock, history) };
    };
    const first = await open();
    const selection = createSelection(windowsOf(condition), facts);
    for (let minute = 0; minute < 6; minute += 1) {
      await clock.advance(MINUTE);
      const { values, unstored } = selection();
      await first.history.sample(values, { unstored });
    }
    await store.commit('a', first.history.unsaved());
    const resultOf = ({ evidence }: typeof first) => {
      const result = evaluateCondition(condition, evidence);
      return Array.isArray(result) && result.length === 0 ? 'not' : result;
    };
    expect(resultOf(first)).toBe('not');
    expect(resultOf(await open())).toBe(expected);
  });
});
