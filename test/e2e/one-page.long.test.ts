import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { alerts } from '../../mixin/rules.ts';
import type { Destination } from '../../src/emulator/server.ts';
import type { Clock } from '../../src/kit/clock.ts';
import { firingAt, namesInRules, replica } from '../mixin/promtool.ts';
import { ALERTMANAGER, startAlertmanager } from '../support/alertmanager.ts';
import { runCourse } from '../support/course.ts';
import { requireProgram } from '../support/prometheus.ts';
import { faster, type Labels, startReceivers } from '../support/shipped-alertmanager.ts';

const MINUTE = 60_000;
const HOUR = 60;
/** Start of the outage (min). More than a day of healthy traffic precedes it, so that the windows of slow burns are complete. */
const DOWN = 25 * HOUR;
const UP = DOWN + 2 * HOUR;
/** End of the simulation (min). By then, all alerts on six-hour windows and slow burns have resolved. */
const END = UP + 8 * HOUR;
/** Interval between reads, between samples and between evaluations (min). */
const STEP = 4;

const loaded = alerts.filter(({ set }) => set !== 'extended').map(({ name }) => name);

/** Three destinations with equal traffic. All attempts to the first one fail for two hours. */
const destinations = (clock: Clock): readonly Destination[] => {
  const start = clock.now();
  const isDown = () => clock.now() >= start + DOWN * MINUTE && clock.now() < start + UP * MINUTE;
  return ['orders', 'mails', 'reports'].map(name => ({
    fields: { method: 'POST', header: {}, maxRetries: 3, topicId: '', url: `https://${name}.example.com/` },
    everyMs: 30_000,
    takesMs: 300,
    get flaky() {
      return name === 'orders' && isDown() ? 1 : 0.005;
    },
    doomed: 0.001,
    statuses: [503],
  }));
};

/** Returns the alerts that fire at each evaluation from the start of the outage. */
async function incident() {
  const needed = namesInRules(loaded);
  const every = `${STEP}m`;
  const course = await runCourse({
    scenario: 'steady',
    destinations,
    minutes: END,
    config: { collect: { flowControl: { every }, dlq: { every }, events: { every } } },
    keep: name => needed.has(name),
  });
  const input = Object.fromEntries([...course].map(([series, values]) => [series, (minute: number) => values[minute]]));
  const minutes = Array.from({ length: (END - DOWN) / STEP }, (_, index) => DOWN + STEP * index);
  return firingAt(minutes, loaded, {
    name: 'incident',
    input: replica({ up: () => 1, ...input }),
    minutes: END,
    step: STEP,
  });
}

/** Speed-up relative to production. */
const FASTER = 400;

/** Sends alerts to Alertmanager when they start and end, as Prometheus does, but faster. */
async function replay(url: string, states: ReadonlyMap<number, readonly Labels[]>): Promise<void> {
  let before: readonly Labels[] = [];
  for (const firing of states.values()) {
    const isSame = (a: Labels) => (b: Labels) => JSON.stringify(a) === JSON.stringify(b);
    const ended = before.filter(labels => !firing.some(isSame(labels)));
    const endsAt = new Date().toISOString();
    const body = JSON.stringify([...firing.map(labels => ({ labels })), ...ended.map(labels => ({ labels, endsAt }))]);
    const answer = await fetch(`${url}/api/v2/alerts`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    expect(answer.status).toBe(200);
    // While nothing fires, no notification is due, so this time is skipped.
    if (firing.length > 0 || ended.length > 0) await sleep((STEP * MINUTE) / FASTER);
    before = firing;
  }
  await sleep((10 * MINUTE) / FASTER);
}

const canRun = requireProgram('promtool') && requireProgram(ALERTMANAGER);

it.skipIf(!canRun)('a two-hour outage of one of three destinations causes at most four notifications', async () => {
  const states = await incident();
  const receivers = await startReceivers();
  const { url } = await startAlertmanager(receivers.url, faster(FASTER, receivers.url));
  await replay(url, states);
  const sent = receivers.all();
  expect(sent.length, sent.join('\n')).toBeLessThanOrEqual(4);
  expect(sent).toContain('default: DeliveryDlqGrowing');
  expect(sent).toContain('urgent: DeliveryErrorBudgetFastBurn');
  expect(sent.at(-1)).toMatch(/^urgent: DeliveryErrorBudgetFastBurn \(resolved\)/);
});
