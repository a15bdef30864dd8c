import { describe, expect, it } from 'vitest';
import { HOUR, MINUTE, rule, SECOND } from '../support/auto-cancel-options.ts';
import { createScene } from '../support/auto-cancel-scene.ts';
import { warmScene } from './warm-scene.ts';

describe('unreliable evidence', () => {
  it.each([
    ['no_data', { hasFacts: false }],
    ['stale', { isFresh: false }],
    ['partial', { isPartial: true }],
  ] as const)('unreliable evidence prevents cancels: %s', async (reason, change) => {
    const scene = await warmScene();
    Object.assign(scene, change);
    expect(await scene.walk('a')).toBe(reason === 'no_data' ? '' : `left a ${reason}`);
    expect(scene.explain('a')?.held).toBe(reason === 'no_data' ? undefined : reason);
    expect(scene.sent).toEqual([]);
    Object.assign(scene, { hasFacts: true, isFresh: true, isPartial: false });
    expect(await scene.again()).toMatch(/^intent a/);
  });

  it('the first two walks of a process are unreliable evidence', async () => {
    const scene = await createScene({ rules: [rule('jobs')] });
    expect(await scene.walk('a')).toBe('left a too_early');
    expect(await scene.again()).toBe('');
    expect(await scene.again()).toMatch(/^intent a/);
    await scene.wait(0);
    await scene.restart();
    expect(await scene.walk('b')).toBe('left b too_early');
  });

  it.each([HOUR, -HOUR, 31 * SECOND, -31 * SECOND])(
    'the first two walks after a clock step of %i ms are unreliable evidence',
    async by => {
      const scene = await warmScene();
      scene.clock.step(by);
      await scene.wait(SECOND);
      expect(await scene.walk('a')).toBe('left a too_early');
      expect(await scene.again()).toBe('');
      expect(await scene.again()).toMatch(/^intent a/);
    },
  );

  it('walks after a clock step of 30 s are reliable evidence', async () => {
    const scene = await warmScene();
    scene.clock.step(30 * SECOND);
    expect(await scene.walk('a')).toMatch(/^intent a/);
  });

  it('the first two walks after a clock step are unreliable evidence even if there was no data during the step', async () => {
    const scene = await warmScene();
    scene.hasFacts = false;
    scene.clock.step(-HOUR);
    await scene.wait(MINUTE);
    scene.hasFacts = true;
    expect(await scene.walk('a')).toBe('left a too_early');
    expect(await scene.again()).toBe('');
    expect(await scene.again()).toMatch(/^intent a/);
  });
});

describe('event look-ups', () => {
  it.each([
    ['old event', 3 * HOUR, 'intent a jobs 1\nanswered a 1 accepted'],
    ['recent event', MINUTE, 'left a idle_for'],
  ])(
    'if all other predicates hold, the event look-up decides whether a callback is cancelled: %s',
    async (_, age, expected) => {
      const scene = await warmScene();
      scene.events.set('m-a', scene.clock.now() - age);
      scene.messages.set('a', 'c');
      scene.events.set('c', scene.clock.now() - 4 * HOUR);
      expect(await scene.walk('a:asks_events')).toBe(expected);
    },
  );

  it.each([
    ['no event', 'none'],
    ['unreadable', 'error'],
    ['stale', 'stale'],
  ])('a cancel is prevented if the event look-up has no usable result: %s', async (_, kind) => {
    const scene = await warmScene();
    if (kind === 'error') scene.events.set('m-a', undefined);
    if (kind === 'stale') {
      scene.events.set('m-a', scene.clock.now() - 3 * HOUR);
      scene.eventsAreFresh = false;
    }
    expect(await scene.walk('a:asks_events')).toBe('left a unknown_idle_for');
    expect(scene.autoCancel().numbers().skips).toMatchObject([{ rule: 'jobs', reason: 'unknown_idle_for', count: 1 }]);
  });

  it('event look-ups use the later of the last events of the message and its callback', async () => {
    const scene = await warmScene();
    scene.messages.set('a', 'c');
    scene.events.set('m-a', scene.clock.now() - 3 * HOUR);
    scene.events.set('c', scene.clock.now() - MINUTE);
    expect(await scene.walk('a:asks_events')).toBe('left a idle_for');
    scene.events.set('c', scene.clock.now() - 2 * HOUR);
    expect(await scene.walk('a:asks_events')).toMatch(/^intent a/);
  });

  it('event look-ups start with callbacks that have no decision yet', async () => {
    const plan = { rules: [rule('jobs', { mode: 'plan' })] };
    const scene = await warmScene(plan);
    const many = Array.from({ length: 25 }, (_, index) => `a${index}:asks_events`);
    for (const id of [...many, 'z']) scene.events.set(`m-${id.split(':')[0]}`, scene.clock.now() - 3 * HOUR);
    await scene.walk(many.join(' '));
    expect(await scene.walk([...many, 'z:asks_events'].join(' '))).toContain('ended z planned stuck');
  });
});
