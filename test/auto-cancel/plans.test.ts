import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { foldPlan, NONE_PLANNED, noPlans, planSummary } from '../../src/auto-cancel/journal-state.ts';
import { type JournalEntry, PLAN_OUTCOMES } from '../../src/model/journal.ts';
import { UpstreamError } from '../../src/upstream/errors.ts';
import { HOUR, MINUTE, rule } from '../support/auto-cancel-options.ts';
import { warmScene } from './warm-scene.ts';

const PLAN = { rules: [rule('jobs', { mode: 'plan' })] };

/** Returns a scene in which the callbacks are planned. */
async function plannedScene(words = 'a', section: object = PLAN) {
  const scene = await warmScene(section);
  expect(await scene.walk(words)).toContain('planned stuck');
  return scene;
}

type Scene = Awaited<ReturnType<typeof plannedScene>>;

const outcomes = (scene: Scene, name = 'jobs') => {
  const { planned, ...counts } = scene.autoCancel().numbers().plans.get(name) ?? { planned: 0 };
  return { planned, ...Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0)) };
};

/** Walks every 10 minutes for a time (ms). */
async function walkFor(scene: Scene, words: string, ms: number) {
  const results: string[] = [];
  for (let left = ms; left > 0; left -= 10 * MINUTE) {
    await scene.wait(9 * MINUTE);
    results.push(await scene.walk(words));
  }
  return results.filter(text => text !== '').join('\n');
}

describe('planned callbacks', () => {
  it.each([
    ['success', 'success read_success', { success: 1 }],
    ['fail', 'failed read_fail', { failed: 1 }],
    ['canceled', 'unknown read_canceled', { unknown: 1 }],
    ['gone', 'unknown read_gone', { unknown: 1 }],
  ] as const)('a planned callback whose row then shows %s has the outcome %s, once', async (state, text, counts) => {
    const scene = await plannedScene();
    scene.states.set('a', state);
    expect(await scene.walk('')).toBe(`observed a ${text}`);
    expect(outcomes(scene)).toEqual({ planned: 1, ...counts });
    expect(await scene.walk('')).toBe('');
    await scene.restart();
    await scene.warm();
    expect(outcomes(scene)).toEqual({ planned: 1, ...counts });
    expect((await scene.lines()).filter(({ step }) => step === 'observed')).toHaveLength(1);
  });

  it('a planned callback is observed while walks find it, and has the outcome in_progress after two days', async () => {
    const scene = await plannedScene();
    expect(await walkFor(scene, 'a', 47 * HOUR)).toBe('');
    expect(outcomes(scene)).toEqual({ planned: 1 });
    expect(await walkFor(scene, 'a', HOUR)).toBe('observed a in_progress observed');
    scene.states.set('a', 'success');
    expect(await scene.walk('')).toBe('');
    expect(outcomes(scene)).toEqual({ planned: 1, in_progress: 1 });
  });

  it('setting the clock forward by three days does not end the observation of a planned callback', async () => {
    const scene = await plannedScene();
    scene.clock.step(72 * HOUR);
    expect(await scene.walk('a')).not.toContain('observed');
  });

  it('the outcome of a planned cancel is unknown if a gap between walks ends its episode, even if the callback succeeded', async () => {
    const scene = await plannedScene();
    scene.states.set('a', 'success');
    await scene.wait(31 * MINUTE);
    expect(await scene.walk('')).toBe('observed a unknown end_not_seen');
  });

  it('the outcome of a planned cancel is unknown if auto-cancel was off for hours, even if the callback succeeded', async () => {
    const scene = await plannedScene();
    await walkFor(scene, 'a', HOUR);
    scene.states.set('a', 'success');
    await scene.wait(3 * HOUR);
    await scene.restart();
    expect(await scene.walk('')).toBe('observed a unknown end_not_seen');
  });

  it('the outcome of a planned cancel is unknown if an operator has started another run of it', async () => {
    const scene = await plannedScene();
    scene.messages.set('a', 'another run');
    scene.states.set('a', 'success');
    expect(await scene.walk('')).toBe('observed a unknown another_episode');
  });

  it('the outcome of a planned cancel is unknown at once if the service reports no state', async () => {
    const blind = rule('jobs', { mode: 'plan', evidence: 'blind', stuckWhen: { seenFor: '60h' } });
    const scene = await warmScene({ rules: [blind] });
    scene.states.set('a', undefined);
    expect(await scene.walk('a')).toBe('ended a planned stuck\nobserved a unknown no_state');
  });

  it('a planned callback is looked up again after a failed look-up; its outcome is unknown if all look-ups fail', async () => {
    const scene = await plannedScene('a b');
    scene.states.set('a', 'success');
    scene.states.set('b', 'success');
    scene.failing = new UpstreamError('server', 'away', { status: 503 });
    expect(await scene.walk('')).toBe('');
    scene.failing = undefined;
    scene.onAsked = (_, messageId) => {
      if (messageId === 'm-b') throw new Error('unreadable');
    };
    expect(await scene.walk('')).toBe('observed a success read_success');
    expect(await walkFor(scene, '', HOUR)).toBe('observed b unknown end_not_seen');
  });

  it('a planned callback that a rule later cancels has an unknown outcome', async () => {
    const scene = await plannedScene();
    await scene.restart({ rules: [rule('jobs')] });
    await scene.walk('a');
    await scene.walk('a');
    expect(await scene.walk('a')).toContain('intent a jobs 1');
    await scene.wait(0);
    expect(await scene.walk('')).toBe('observed a unknown read_canceled');
  });

  it('a planned callback counts for its rule even if the rule is removed before the outcome', async () => {
    const scene = await plannedScene();
    await scene.restart({ rules: [rule('others', { mode: 'plan', match: { label: { in: ['y'] } } })] });
    expect(scene.autoCancel().isUsed).toBe(true);
    scene.states.set('a', 'fail');
    await scene.walk('');
    expect(outcomes(scene)).toEqual({ planned: 1, failed: 1 });
    expect(outcomes(scene, 'others')).toEqual({ planned: 0 });
  });

  it('a planned callback is observed after a restart without any rule', async () => {
    const scene = await plannedScene();
    await scene.restart({ rules: [] });
    expect(scene.autoCancel().isUsed).toBe(true);
    scene.states.set('a', 'success');
    expect(await scene.walk('')).toBe('observed a success read_success');
  });

  it('the outcome of a planned cancel is unknown if its end was not detected before a restart', async () => {
    const scene = await plannedScene('a b');
    await walkFor(scene, 'a b', HOUR);
    scene.states.set('b', 'success');
    await scene.restart();
    expect(await scene.walk('a')).toBe('observed b unknown end_not_seen');
    expect(outcomes(scene)).toEqual({ planned: 2, unknown: 1 });
  });

  it.each([true, false])('a planned callback has one outcome if the commit fails (written: %s)', async written => {
    const scene = await plannedScene();
    scene.states.set('a', 'success');
    scene.failedCommitsAreWritten = written;
    scene.failCommitsAfter(0);
    await expect(scene.walk('')).rejects.toThrow('disk full');
    expect(outcomes(scene)).toEqual({ planned: 1 });
    scene.failCommitsAfter(Number.POSITIVE_INFINITY);
    await scene.restart();
    await scene.walk('');
    expect(outcomes(scene)).toEqual({ planned: 1, success: 1 });
    expect((await scene.lines()).filter(({ step }) => step === 'observed')).toHaveLength(1);
  });
});

describe('counts of plans', () => {
  const line = (action: string, outcome: 'planned' | (typeof PLAN_OUTCOMES)[number]) => {
    const about = {
      at: 1,
      action,
      rule: 'jobs',
      reason: 'r',
      target: { account: 'p', id: action, episode: 'e' } as never,
    };
    if (outcome === 'planned') return { ...about, step: 'ended', mode: 'plan', outcome } satisfies JournalEntry;
    return { ...about, step: 'observed', outcome } satisfies JournalEntry;
  };

  it('counts of plans never decrease, and include each plan and its first outcome once, in any order of lines', () => {
    const lines = fc.array(
      fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('planned' as const, ...PLAN_OUTCOMES)),
    );
    fc.assert(
      fc.property(lines, all => {
        const plans = noPlans();
        for (const [action, outcome] of all) {
          const before = plans.rules.get('jobs') ?? NONE_PLANNED;
          foldPlan(plans, line(action, outcome));
          const after = plans.rules.get('jobs') ?? NONE_PLANNED;
          const keys = ['planned', ...PLAN_OUTCOMES] as const;
          expect(keys.every(key => after[key] >= before[key])).toBe(true);
          expect(planSummary(after).observing).toBe(plans.open.size);
        }
      }),
    );
  });

  it.each([
    [{}, '0 of 0'],
    [{ success: 1 }, '1 of 1'],
    [{ success: 3, failed: 16 }, '3 of 19'],
    [{ success: 3, failed: 5, in_progress: 32, unknown: 7 }, '3 of 40 (7.5 %)'],
    [{ in_progress: 20 }, '0 of 20 (0 %)'],
    [{ success: 1, failed: 299 }, '1 of 300 (0.33 %)'],
    [{ success: 20, unknown: 99 }, '20 of 20 (100 %)'],
  ])('%j: wrongly planned are %s', (counts, wrong) => {
    const none = { planned: 200, success: 0, failed: 0, in_progress: 0, unknown: 0 };
    expect(planSummary({ ...none, ...counts }).wrong).toBe(wrong);
  });
});
