import { describe, expect, it } from 'vitest';
import { alertsSource } from '../../src/metrics/alerting.ts';
import type { SilenceOptions } from '../../src/notify/options.ts';
import { createSilences, isInForce } from '../../src/notify/silences.ts';
import { type AccountAlerts, openAccountAlerts } from '../../src/rules/account-alerts.ts';
import type { ActiveSeries } from '../../src/rules/evaluate-condition.ts';
import { createEvaluation } from '../../src/rules/evaluation.ts';
import type { AlertRule } from '../../src/rules/options.ts';
import {
  createDeliveryScene,
  createReceiver,
  HOUR,
  MINUTE,
  rule,
  ruleResult,
  SECOND,
} from '../rules/alerting-scene.ts';

const START = Date.UTC(2026, 5, 1);

const silence = (more: Partial<SilenceOptions>): SilenceOptions => ({
  match: {},
  from: null,
  until: null,
  windows: [],
  reason: 'freeze',
  ...more,
});

/** Creates accounts a and b with settable active series, and a receiver of all notifications. */
async function createScene(rules: readonly AlertRule[], silenced: readonly SilenceOptions[] = []) {
  let parts: { readonly alerts: AccountAlerts; readonly evaluate: () => Promise<void> }[] = [];
  const hook = createReceiver('changes');
  const sending = await createDeliveryScene([hook], () => parts.flatMap(({ alerts }) => alerts.notices()));
  const { clock, store, log } = sending;
  const holding: Record<string, readonly ActiveSeries[] | 'unknown'> = { a: [], b: [] };
  async function start(): Promise<void> {
    await sending.restart();
    const silences = createSilences(silenced, clock.now);
    const deps = { mayNotify: () => true as const, store, silences, log };
    parts = [];
    for (const account of ['a', 'b']) {
      const alerts = await openAccountAlerts({ ...deps, account });
      const evaluateRule = () => ruleResult(holding[account] ?? []);
      parts.push({
        alerts,
        evaluate: createEvaluation({ alerts, rules, evaluateRule, clock, log }),
      });
    }
  }
  await start();
  return {
    hook,
    log,
    start,
    /** Returns the phases of the alerts of account a that may be sent. */
    sendable: () =>
      parts
        .filter(({ alerts }) => alerts.account === 'a')
        .flatMap(({ alerts }) => alerts.notices())
        .filter(({ isSuppressed }) => !isSuppressed)
        .map(({ status }) => status),
    alertsOf: (account: string) => parts.find(({ alerts }) => alerts.account === account)?.alerts,
    /**
     * Advances the clock by `ms`, evaluates these active series and delivers. Returns the notifications that were sent, such as
     * `firing a/k1`.
     */
    async run(next: Partial<typeof holding> = {}, ms = SECOND) {
      Object.assign(holding, next);
      const before = hook.notices.length;
      clock.pass(ms);
      for (const { evaluate } of parts) await evaluate();
      await sending.deliver();
      return hook.notices
        .slice(before)
        .map(({ status, labels }) => `${status} ${labels.account}/${labels.x ?? labels.overflow}`);
    },
  };
}

const keys = (...x: string[]): ActiveSeries[] => x.map(x => ({ labels: { x }, value: 1 }));
const many = (count: number) => keys(...Array.from({ length: count }, (_, index) => `k${index}`));

function statesOf(alerts: AccountAlerts | undefined): string {
  const source = alerts && alertsSource(alerts.account, () => ['Big'], alerts.current);
  const samples = source?.samples().get('delivery_watch_alerts') ?? [];
  return samples.map(({ labels, value }) => `${labels.state} ${value}`).join(', ');
}

describe('silences', () => {
  const maintenance = silence({ match: { account: ['a'], alertname: ['Big'] }, from: START, until: START + HOUR });

  it('a silence suppresses notifications of firing alerts until it ends', async () => {
    const scene = await createScene([rule('Big')], [maintenance]);
    expect(await scene.run({ a: keys('1'), b: keys('1') })).toEqual(['firing b/1']);
    expect(statesOf(scene.alertsOf('a'))).toBe('pending 0, firing 0, silenced 1, beyond_cap 0');
    // Auto-cancel depends on the alert's state, not on notifications.
    expect([...(scene.alertsOf('a')?.states() ?? [])]).toEqual([['Big', 'firing']]);
    expect(scene.sendable()).toEqual([]);
    await scene.start();
    expect(await scene.run({}, HOUR - 2 * SECOND)).toEqual([]);
    expect(await scene.run()).toEqual(['firing a/1']);
    expect(statesOf(scene.alertsOf('a'))).toBe('pending 0, firing 1, silenced 0, beyond_cap 0');
    expect(await scene.run({ a: [] })).toEqual(['resolved a/1']);
  });

  it('a silence suppresses notifications of alerts that start and end during it', async () => {
    const scene = await createScene([rule('Big')], [maintenance]);
    await scene.run({ a: keys('1') });
    await scene.start();
    expect(await scene.run({ a: [] })).toEqual([]);
    expect(await scene.run({}, HOUR)).toEqual([]);
    expect(await scene.run({ a: keys('1') })).toEqual(['firing a/1']);
  });

  it('a silence does not suppress the resolved notification of an alert whose firing notification was sent before it', async () => {
    const late = { ...maintenance, from: START + MINUTE };
    const scene = await createScene([rule('Big')], [late]);
    expect(await scene.run({ a: keys('1', '2') })).toEqual(['firing a/1', 'firing a/2']);
    await scene.run({}, MINUTE);
    expect(statesOf(scene.alertsOf('a'))).toBe('pending 0, firing 0, silenced 2, beyond_cap 0');
    expect(scene.sendable()).toEqual([]);
    await scene.start();
    // Notifiers that repeat alerts call `notices` even before the first evaluation.
    expect(scene.sendable()).toEqual([]);
    expect(await scene.run({ a: keys('2') })).toEqual(['resolved a/1']);
    // The firing notification of alert 2 was sent before the silence, so it is not sent again.
    expect(await scene.run({}, HOUR)).toEqual([]);
    expect(scene.sendable()).toEqual(['firing']);
  });

  it('a silence with an empty label value matches alerts without that label', async () => {
    const scene = await createScene([rule('Big')], [silence({ match: { x: [''] }, until: START + HOUR })]);
    expect(await scene.run({ a: [{ labels: {}, value: 1 }, ...keys('1')] })).toEqual(['firing a/1']);
  });

  it.each([
    ['until its end', { until: START + 10 }, [9, 10], [true, false]],
    ['from its start', { from: START + 5, until: START + 10 }, [4, 5], [false, true]],
    [
      'in weekly windows',
      { windows: [{ cron: '0 2 * * 1', for: 2 * HOUR, tz: 'Europe/Amsterdam' }] },
      // Monday 00:00 UTC is 02:00 in Amsterdam.
      [-1, 0, 2 * HOUR - 1, 2 * HOUR, 7 * 24 * HOUR],
      [false, true, true, false, true],
    ],
    [
      'in windows, until its end',
      { until: START + HOUR, windows: [{ cron: '0 0 * * *', for: 2 * HOUR, tz: 'UTC' }] },
      [0, HOUR],
      [true, false],
    ],
  ] as const)('a silence applies %s', (_name, options, times, expected) => {
    const given = silence({ ...options, windows: 'windows' in options ? [...options.windows] : [] });
    expect(times.map(at => isInForce(given, START + at))).toEqual(expected);
  });
});

describe('caps', () => {
  it('a rule sends at most 100 individual alerts per account, and one alert for the rest', async () => {
    const scene = await createScene([rule('Big', { labels: { severity: 'warning' } })]);
    const firing = await scene.run({ a: many(103), b: keys('1') });
    expect(firing).toHaveLength(102);
    expect(firing).toContain('firing a/true');
    expect(scene.hook.notices.find(({ labels }) => labels.overflow)).toMatchObject({
      labels: { alertname: 'Big', account: 'a', overflow: 'true', severity: 'warning' },
      annotations: { summary: 'Big has 3 more series than the 100 that get individual alerts.' },
    });
    expect(statesOf(scene.alertsOf('a'))).toBe('pending 0, firing 101, silenced 0, beyond_cap 3');
  });
});
