import { expect, it } from 'vitest';
import { STAGES } from '../../src/auto-cancel/stages.ts';
import { HOUR, rule } from '../support/auto-cancel-options.ts';
import { createScene } from '../support/auto-cancel-scene.ts';

it('stages have unique names and unique reasons, except reasons about events', () => {
  const names = STAGES.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  const reasons = STAGES.flatMap(({ reasons }) => Object.keys(reasons));
  const twice = reasons.filter((reason, index) => reasons.indexOf(reason) !== index);
  expect(new Set(twice)).toEqual(new Set(['idle_for', 'unknown_idle_for']));
});

it('the reason of the earliest stage is reported if several stages prevent a cancel', async () => {
  const windows = { deny: [{ from: '2026-06-01T00:00:00Z', to: '2026-06-02T00:00:00Z', reason: 'freeze' }] };
  const scene = await createScene({
    pauseWhileAlerts: ['Down'],
    rules: [rule('jobs', { grace: '30m', windows, limits: { perRun: 0, perHour: 0 } })],
  });
  await scene.warm();
  await scene.walk('a');
  const held = () => scene.explain('a')?.held;
  const stageOf = (reason: string | undefined) => STAGES.findIndex(({ reasons }) => (reason ?? '') in reasons);
  Object.assign(scene, { isFresh: false, isStopped: true });
  scene.firing.add('Down');
  const seen = [held()];
  scene.isFresh = true;
  seen.push(held());
  scene.isStopped = false;
  seen.push(held());
  scene.firing.clear();
  seen.push(held());
  await scene.wait(HOUR);
  await scene.again();
  seen.push(held());
  await scene.wait(24 * HOUR);
  await scene.again();
  seen.push(held());
  expect(seen).toEqual(['stale', 'stop_file', 'alert_firing', 'grace', 'window_denied', 'limit_run']);
  expect(seen.map(stageOf)).toEqual(seen.map(stageOf).toSorted((a, b) => a - b));
});
