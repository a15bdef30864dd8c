import { expect, it } from 'vitest';
import { skipText } from '../../src/auto-cancel/words.ts';
import { HOUR, rule } from '../support/auto-cancel-options.ts';
import { createScene } from '../support/auto-cancel-scene.ts';

const heldOf = (scene: Awaited<ReturnType<typeof createScene>>, id = 'a') => scene.explain(id)?.held;

it('a tracked callback can be selected for an explanation by its dlqId or messageId', async () => {
  const scene = await createScene({ rules: [rule('first'), rule('second', { mode: 'plan' })] });
  await scene.walk('a:first=stuck,second=idle_for b:no_match');
  expect(scene.explain('a')).toEqual({
    account: 'production',
    dlqId: 'a',
    messageId: 'm-a',
    action: expect.stringMatching(/^[0-9a-f]{32}$/),
    firstSeenAt: scene.clock.now(),
    lastSeenAt: scene.clock.now(),
    snapshots: 9,
    owner: { rule: 'second', mode: 'plan' },
    findings: [
      { rule: 'second', verdict: 'not_stuck', reason: 'idle_for', predicates: [] },
      { rule: 'first', verdict: 'stuck', reason: 'stuck', predicates: [] },
    ],
    held: undefined,
    attempts: 0,
    outcome: undefined,
    mayApprove: false,
    url: 'https://h.example.com/',
    workflowUrl: undefined,
  });
  expect(scene.explain('m-a')).toEqual(scene.explain('a'));
  expect(scene.explain('b')).toMatchObject({ dlqId: 'b', owner: undefined, findings: [], action: undefined });
  expect(scene.explain('c')).toBeUndefined();
});

it('an explanation contains the reason why a stuck callback is not cancelled', async () => {
  const windows = { deny: [{ from: '2026-06-01T02:00:00Z', to: '2026-06-01T03:00:00Z', reason: 'freeze' }] };
  const scene = await createScene({ rules: [rule('jobs', { mode: 'approve', grace: '30m', windows })] });
  await scene.walk('a');
  expect(heldOf(scene)).toBe('too_early');
  await scene.walk('a');
  await scene.walk('a');
  expect(heldOf(scene)).toBe('grace');
  await scene.wait(HOUR);
  await scene.walk('a');
  expect(heldOf(scene)).toBe('awaiting_approval');
  scene.isStopped = true;
  expect(heldOf(scene)).toBe('stop_file');
  scene.isStopped = false;
  const action = scene.explain('a')?.action ?? '';
  await scene.journal().append([{ at: 0, action, step: 'approved', by: 'ann' }]);
  expect(heldOf(scene)).toBeUndefined();
  await scene.wait(HOUR);
  expect(heldOf(scene)).toBe('window_denied');
  scene.isFresh = false;
  expect(heldOf(scene)).toBe('stale');
});

it('an explanation contains attempts and outcome', async () => {
  const scene = await createScene({ rules: [rule('jobs')] });
  await scene.warm();
  await scene.walk('a');
  expect(scene.explain('a')).toMatchObject({ attempts: 1, outcome: 'open' });
  await scene.wait(0);
  expect(scene.explain('a')).toMatchObject({ attempts: 1, outcome: 'confirmed' });
  const other = await createScene({ rules: [rule('jobs', { mode: 'plan' })] });
  await other.warm();
  await other.walk('a');
  expect(other.explain('a')).toMatchObject({ attempts: 0, outcome: 'planned' });
});

it('until its rule may act, the explanation of a planned callback names plan mode as the reason, even while cancels are suspended', async () => {
  const windows = { deny: [{ from: '2026-06-03T00:00:00Z', to: '2026-06-09T00:00:00Z', reason: 'freeze' }] };
  const jobs = (mode: string) => ({
    rules: [rule('jobs', { mode, grace: '30m', windows, cooldown: { perUrl: '1d' } })],
  });
  const scene = await createScene(jobs('plan'));
  await scene.warm();
  await scene.walk('a');
  expect(heldOf(scene)).toBe('grace');
  await scene.wait(HOUR);
  expect(await scene.walk('a')).toContain('planned');
  for (const _ of [1, 2, 3]) {
    expect(scene.explain('a')).toMatchObject({ held: 'planned', outcome: 'planned' });
    await scene.wait(20 * HOUR);
    await scene.walk('a');
  }
  scene.isStopped = true;
  expect(heldOf(scene)).toBe('planned');
  scene.isStopped = false;
  await scene.restart(jobs('enforce'));
  await scene.walk('a');
  await scene.walk('a');
  await scene.walk('a');
  expect(heldOf(scene)).toBe('grace');
  expect(skipText('planned')).toBe('Nothing is cancelled because the rule only plans cancels.');
});

it('an explanation names the cooldown if a cancel of another callback with the same URL is planned', async () => {
  const scene = await createScene({ rules: [rule('jobs', { mode: 'plan', cooldown: { perUrl: '1h' } })] });
  await scene.warm();
  await scene.walk('a b');
  expect([heldOf(scene), heldOf(scene, 'b')]).toEqual(['planned', 'cooldown']);
});

it('an explanation of a sent cancel without an outcome names the missing outcome, not the cooldown that the cancel started', async () => {
  const scene = await createScene({ rules: [rule('jobs', { cooldown: { perUrl: '1h' } })] });
  await scene.warm();
  scene.answers = ['timeout'];
  await scene.walk('a');
  expect(scene.explain('a')).toMatchObject({ held: 'unresolved', outcome: 'open', attempts: 1 });
});
