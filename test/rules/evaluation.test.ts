import { describe, expect, it } from 'vitest';
import { matches } from '../../src/notify/silences.ts';
import { type AccountAlerts, type Alert, openAccountAlerts } from '../../src/rules/account-alerts.ts';
import type { ConditionResult } from '../../src/rules/evaluate-condition.ts';
import { createEvaluation } from '../../src/rules/evaluation.ts';
import { isSelected } from '../../src/rules/facts.ts';
import { type AlertRule, expand } from '../../src/rules/options.ts';
import {
  ACCEPTED,
  createDeliveryScene,
  createReceiver,
  DOWN,
  MINUTE,
  rule,
  ruleResult,
  SECOND,
  sendAll,
} from './alerting-scene.ts';

/** Parses `a=1 b=2` into series with the labels x="a" and x="b"; `?` means unknown. */
function resultOf(words: string): ConditionResult {
  if (words === '?') return 'unknown';
  return [...words.matchAll(/(\w*)=(\S+)/g)].map(([, x = '', value]) => ({ labels: { x }, value: Number(value) }));
}

interface Doubts {
  isInconclusive(labels?: Readonly<Record<string, string>>): boolean;
}

async function createScene(...given: [Doubts | AlertRule, ...AlertRule[]]) {
  const [first, ...others] = given;
  const [doubts, rules] = 'name' in first ? [{ isInconclusive: () => false }, [first, ...others]] : [first, others];
  let alerts: AccountAlerts | undefined;
  const [hook, ops] = [createReceiver('changes'), createReceiver('state', 'ops')];
  const sending = await createDeliveryScene([hook, ops], () => alerts?.notices() ?? []);
  const { clock, store, log } = sending;
  let results: (rule: string) => ConditionResult = () => [];
  let evaluate: () => Promise<void>;
  async function start(current: readonly AlertRule[] = rules): Promise<void> {
    await sending.restart();
    alerts = await openAccountAlerts({
      mayNotify: () => true,
      account: 'acme',
      store,
      ...sendAll,
      log,
    });
    alerts.setUnknown(current.map(({ name }) => name));
    evaluate = createEvaluation({
      alerts,
      rules: current,
      evaluateRule: ({ name }) => ruleResult(results(name), doubts.isInconclusive),
      clock,
      log,
    });
  }
  await start();
  return {
    hook,
    sending,
    log,
    start,
    alerts: () => alerts as AccountAlerts,
    all: () => [...(alerts?.current().alerts.values() ?? [])],
    beyondCap: () => [...(alerts?.current().alerts.values() ?? [])].flatMap(({ omitted }) => omitted ?? []),
    /** Advances time, evaluates each rule with this result, sends due notices and returns the notices that the hook received. */
    async run(words: string | ((rule: string) => ConditionResult), ms = SECOND) {
      results = typeof words === 'string' ? () => resultOf(words) : words;
      const before = hook.sent.length;
      clock.pass(ms);
      await evaluate();
      await sending.deliver();
      return hook.sent.slice(before).join('; ');
    },
    phases: () =>
      [...(alerts?.current().alerts.values() ?? [])]
        .map(({ labels, state }) => `${labels.x ?? labels.alertname} ${state.phase}`)
        .join(', '),
  };
}

describe('account evaluation', () => {
  it('the evaluation sends a notification for each series that starts or stops firing', async () => {
    const scene = await createScene(rule('Big', { for: 2 * SECOND }));
    expect(await scene.run('a=1')).toBe('');
    expect(await scene.run('a=1 b=2')).toBe('');
    expect(await scene.run('a=1 b=2')).toBe('firing a');
    expect(await scene.run('b=2')).toBe('resolved a; firing b');
    expect(scene.phases()).toBe('a resolved, b firing');
    expect(await scene.run('?')).toBe('');
    expect(scene.phases()).toBe('a resolved, b firing');
  });

  it('the evaluation merges the non-empty labels of series and rule, and expands annotations with the latest value', async () => {
    const annotations = { summary: '{{ $value }} in {{ $labels.account }} of {{$labels.x}}{{ $labels.none }}!' };
    const scene = await createScene(rule('Big', { labels: { severity: 'warning' }, annotations }));
    await scene.run('a=1 =7');
    await scene.run('a=2.5 =7');
    expect(scene.alerts().notices()).toEqual([
      {
        status: 'firing',
        labels: { alertname: 'Big', account: 'acme', severity: 'warning', x: 'a' },
        annotations: { summary: '2.5 in acme of a!' },
        startsAt: expect.any(Number),
        firedAt: expect.any(Number),
      },
      expect.objectContaining({ labels: { alertname: 'Big', account: 'acme', severity: 'warning' } }),
    ]);
    expect(scene.hook.notices[0]?.annotations).toEqual({ summary: '1 in acme of a!' });
  });

  it('after a restart, the evaluation restores alerts without duplicate notifications and resolves them if their condition no longer holds', async () => {
    const scene = await createScene(rule('Big', { for: 3 * SECOND }));
    for (let second = 0; second < 4; second += 1) await scene.run('a=1');
    const [before] = scene.alerts().notices();
    await scene.run('a=1 b=1');
    await scene.run('a=1 b=1');
    await scene.start();
    expect(scene.phases()).toBe('a firing, b pending');
    expect(await scene.run('?', 5 * MINUTE)).toBe('');
    // b held for one second before the restart; the first evaluation after the restart adds no time.
    expect(await scene.run('a=1 b=1')).toBe('');
    expect(await scene.run('a=1 b=1')).toBe('');
    expect(await scene.run('a=1 b=1')).toBe('firing b');
    expect(scene.alerts().notices()[0]).toEqual(before);
    await scene.start();
    expect(await scene.run('b=1')).toBe('resolved a');
  });

  it('the evaluation resolves alerts of a rule that was removed while the agent restarted', async () => {
    const scene = await createScene(rule('Big', { keepFiringFor: MINUTE }));
    await scene.run('a=1');
    await scene.start([]);
    expect(await scene.run('')).toBe('resolved a');
    expect(await scene.run('', 15 * MINUTE)).toBe('');
    expect(scene.phases()).toBe('');
    await scene.start();
    expect(scene.phases()).toBe('');
  });

  it('the evaluation writes no rows while alert states are unchanged', async () => {
    const scene = await createScene(rule('Big'));
    await scene.run('a=1');
    const { commits } = scene.sending.store;
    for (let second = 0; second < 10; second += 1) await scene.run(`a=${second}`);
    expect(scene.sending.store.commits).toBe(commits);
    // The same applies while an alert is unsent. Two more commits are the log of the other receiver.
    scene.hook.answer = () => DOWN;
    await scene.run('b=1');
    for (let second = 0; second < 10; second += 1) await scene.run(`b=${second}`);
    expect(scene.sending.store.commits).toBe(commits + 3);
  });

  it('an alert sent before the store could commit it is not sent again when the store recovers, or after a restart', async () => {
    const scene = await createScene(rule('Big'));
    scene.sending.store.isFull = true;
    expect(await scene.run('a=1')).toBe('firing a');
    scene.sending.store.isFull = false;
    expect(await scene.run('a=1')).toBe('');
    expect((await scene.sending.store.scan('acme', 'alerts/state/')).size).toBe(1);
    await scene.start();
    expect(await scene.run('a=1')).toBe('');
  });

  it('the evaluation sends alerts while the store fails and stores them when it recovers', async () => {
    const scene = await createScene(rule('Big'));
    scene.sending.store.isFull = true;
    expect(await scene.run('a=1')).toBe('firing a');
    scene.hook.answer = () => DOWN;
    await scene.run('a=1 b=1');
    await scene.run('a=1 b=1');
    expect(scene.log.lines.filter(({ message }) => message.includes('not stored'))).toHaveLength(1);
    scene.sending.store.isFull = false;
    await scene.run('a=1 b=1');
    await scene.start();
    expect(scene.phases()).toBe('a firing, b firing');
    scene.hook.answer = () => ACCEPTED;
    expect(await scene.run('a=1 b=1')).toBe('firing b');
  });

  it('the evaluation continues with all other rules if one rule throws', async () => {
    const scene = await createScene(rule('Broken'), rule('Big'));
    await scene.run('a=1');
    const sent = await scene.run(name => {
      if (name === 'Broken') throw new Error('a bug');
      return [];
    });
    expect(sent).toBe('resolved a');
    expect(scene.all().map(({ rule, state }) => `${rule} ${state.phase}`)).toEqual(['Broken firing', 'Big resolved']);
    expect(scene.log.lines.some(({ message }) => message === 'bug')).toBe(true);
  });

  const keys = (count: number, from = 0) =>
    Array.from({ length: count }, (_, index) => ({ labels: { x: `k${from + index}` }, value: 1 }));
  const phaseCounts = (alerts: readonly Alert[]) =>
    Object.fromEntries(
      [...Map.groupBy(alerts, ({ state }) => state.phase)].map(([phase, each]) => [phase, each.length]),
    );

  it('the evaluation limits a rule to a hundred alerts plus an overflow alert, even if its series keep changing', async () => {
    const scene = await createScene(rule('Big', { labels: { severity: 'warning' } }));
    for (let round = 0; round < 40; round += 1) {
      await scene.run(() => keys(1000, 1000 * round), 15 * SECOND);
      expect(scene.all()).toHaveLength(101);
      expect(scene.beyondCap()).toEqual([round === 0 ? 900 : 1000]);
    }
    const { notices } = scene.hook;
    const rest = notices.filter(({ labels }) => labels.overflow);
    expect(rest).toMatchObject([
      {
        status: 'firing',
        labels: { alertname: 'Big', account: 'acme', severity: 'warning', overflow: 'true' },
        annotations: { summary: 'Big has 900 more series than the 100 that get individual alerts.' },
      },
    ]);
    // 100 firing notices, 100 resolved notices and the overflow alert.
    expect(notices).toHaveLength(201);
    expect((await scene.sending.store.scan('acme', 'alerts/state/')).size).toBe(101);
    await scene.start();
    await scene.run(() => keys(1000, 39_000));
    expect(scene.hook.notices).toHaveLength(201);
    await scene.run(() => []);
    expect(scene.hook.notices.slice(201).map(({ status, labels }) => [status, labels.overflow])).toEqual([
      ['resolved', 'true'],
    ]);
    await scene.run(() => [], 16 * MINUTE);
    await scene.run(() => keys(100, 50_000));
    expect([phaseCounts(scene.all()), scene.beyondCap()]).toEqual([{ firing: 100 }, []]);
  });

  it('existing alerts take precedence when a rule exceeds the alert limit, regardless of their position in the list of series', async () => {
    const scene = await createScene(rule('Big'));
    await scene.run(() => keys(100));
    await scene.run(() => [...keys(50, 500), ...keys(100)]);
    expect(scene.hook.notices.filter(({ status }) => status === 'resolved')).toEqual([]);
    expect(scene.beyondCap()).toEqual([50]);
  });

  it('the evaluation keeps an alert firing while a negative result is inconclusive, and reports its rule as firing or unknown', async () => {
    const doubts = new Set<string>();
    const scene = await createScene(
      { isInconclusive: ({ x = '' } = {}) => doubts.has(x) || (x === '' && doubts.size > 0) },
      rule('Big'),
      rule('Quiet'),
    );
    const states = () => [...scene.alerts().states().keys()].sort();
    const say = (words: string) => (name: string) => resultOf(name === 'Big' ? words : '');
    expect(states()).toEqual(['Big', 'Quiet']);
    await scene.run(say('a=1 b=1'));
    expect(states()).toEqual(['Big']);
    await scene.start();
    expect(states()).toEqual(['Big', 'Quiet']);
    doubts.add('a');
    expect(await scene.run(say(''))).toBe('resolved b');
    expect(scene.phases()).toBe('a firing, b resolved');
    expect(states()).toEqual(['Big', 'Quiet']);
    doubts.clear();
    expect(await scene.run(say(''))).toBe('resolved a');
    expect(states()).toEqual([]);
    await scene.run(name => resultOf(name === 'Big' ? '?' : ''));
    expect(states()).toEqual(['Big']);
  });

  it('the evaluation counts the time that a condition held before a restart toward `for`, so that an alert fires even in a crash loop', async () => {
    const scene = await createScene(rule('Blind', { for: 5 * MINUTE }));
    for (const minutes of [2, 4]) {
      await scene.run(() => [{ labels: { x: 'a' }, value: 1, heldFor: minutes * MINUTE }]);
      expect(scene.phases()).toBe('a pending');
      await scene.start();
    }
    expect(await scene.run(() => [{ labels: { x: 'a' }, value: 1, heldFor: 5 * MINUTE }])).toBe('firing a');
  });

  it('the evaluation keeps an alert pending while its condition is unknown', async () => {
    const scene = await createScene(rule('Big', { for: 2 * SECOND }));
    await scene.run('a=1');
    await scene.run('?', 60 * MINUTE);
    expect(scene.phases()).toBe('a pending');
    expect(await scene.run('a=1')).toBe('');
  });

  it('the evaluation queues no duplicate notices while the store fails', async () => {
    const scene = await createScene(rule('Big'));
    scene.sending.store.isFull = true;
    await scene.run('a=1');
    for (let second = 0; second < 10; second += 1) await scene.run('a=1');
    scene.sending.store.isFull = false;
    await scene.run('a=1');
    expect(scene.hook.sent).toEqual(['firing a']);
  });
});

it.each(['constructor', 'toString', '__proto__'])(
  'a missing label %s is empty in annotations, silences and selectors',
  name => {
    const labels = { account: 'a' };
    expect(expand(`x{{ $labels.${name} }}`, labels, 1)).toBe('x');
    const match = Object.fromEntries([[name, ['']]]);
    expect(matches(match, labels)).toBe(true);
    expect(isSelected({ metric: 'delivery_up', labels: match }, labels)).toBe(true);
  },
);
