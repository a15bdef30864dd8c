import { describe, expect, it } from 'vitest';
import { UpstreamError } from '../../src/upstream/errors.ts';
import { HOUR, MINUTE, rule, SECOND } from '../support/auto-cancel-options.ts';
import { warmScene } from './warm-scene.ts';

describe('decisions', () => {
  it('a stuck callback is cancelled once, and the result is read back', async () => {
    const scene = await warmScene();
    expect(await scene.walk('a b:in_progress_for')).toBe(
      'intent a jobs 1\nanswered a 1 accepted\nleft b in_progress_for',
    );
    expect(scene.sent).toEqual(['a']);
    expect(await scene.wait(0)).toBe('ended a confirmed read_canceled');
    // The list may still contain the old state for some time.
    expect(await scene.again()).toBe('');
    expect(await scene.wait(HOUR)).toBe('');
    expect(scene.sent).toEqual(['a']);
  });

  it('a callback is cancelled once per episode, even after a restart', async () => {
    const scene = await warmScene();
    await scene.walk('a');
    await scene.wait(0);
    scene.states.delete('a');
    expect(await scene.again()).toBe('');
    await scene.restart();
    await scene.warm();
    expect(await scene.walk('a')).toBe('');
    expect(await scene.walk('a#2')).toBe('intent a jobs 1\nanswered a 1 accepted');
    expect(await scene.wait(0)).toBe('ended a confirmed read_canceled');
    expect(scene.sent).toEqual(['a', 'a']);
  });

  it('a rule in plan mode plans a cancel once', async () => {
    const scene = await warmScene({ rules: [rule('jobs', { mode: 'plan' })] });
    expect(await scene.walk('a')).toBe('ended a planned stuck');
    expect(await scene.again()).toBe('');
    await scene.restart({ rules: [rule('jobs', { mode: 'plan' })] });
    await scene.warm();
    expect(await scene.walk('a')).toBe('');
    expect(scene.sent).toEqual([]);
    // A planned cancel does not prevent an actual one later.
    await scene.restart({ rules: [rule('jobs')] });
    await scene.warm();
    expect(await scene.walk('a')).toMatch(/^intent a jobs 1\n/);
  });

  it('a rule plans cancels instead of sending them if the global mode is plan', async () => {
    const scene = await warmScene({ mode: 'plan', rules: [rule('jobs')] });
    expect(await scene.walk('a')).toBe('ended a planned stuck');
    expect(await scene.lines()).toMatchObject([{ mode: 'plan' }]);
    expect(scene.sent).toEqual([]);
  });

  it('as soon as a rule expires, it plans cancels instead of sending them', async () => {
    const expires = '2026-06-01T01:00:00Z';
    const scene = await warmScene({ rules: [rule('jobs', { expires })] });
    await scene.wait(Date.parse(expires) - scene.clock.now() - MINUTE - 1);
    expect(await scene.walk('a')).toMatch(/^intent a/);
    await scene.wait(0);
    await scene.wait(1 - MINUTE);
    expect(await scene.walk('b')).toBe('ended b planned stuck');
    expect(scene.clock.now()).toBe(Date.parse(expires));
    expect(scene.sent).toEqual(['a']);
  });

  it('an open cancel is abandoned if its rule may no longer act', async () => {
    const scene = await warmScene();
    scene.answers = ['500'];
    await scene.walk('a');
    await scene.restart({ rules: [rule('jobs', { mode: 'plan' })] });
    await scene.warm();
    for (const ms of [0, 5, 10, 45]) await scene.wait(ms * SECOND);
    expect(await scene.walk('a')).toBe('ended a gave_up may_no_longer_act');
    expect(await scene.again()).toBe('');
    expect(scene.sent).toEqual(['a']);
  });

  it.each([
    ['plan', 'plan', 'enforce', 'ended a planned stuck'],
    ['plan, although it is the last rule', 'enforce', 'plan', 'ended a planned stuck'],
    ['approve', 'approve', 'enforce', 'awaiting_approval a first\nleft a awaiting_approval'],
  ])('the most cautious matching rule applies: %s', async (_, first, second, expected) => {
    const scene = await warmScene({ rules: [rule('first', { mode: first }), rule('second', { mode: second })] });
    expect(await scene.walk('a')).toBe(expected);
    expect(scene.sent).toEqual([]);
  });

  it('the first of two rules with the same mode applies, and the explanation contains the findings of the other rule', async () => {
    const scene = await warmScene({ rules: [rule('first'), rule('second')] });
    expect(await scene.walk('a:first=idle_for,second=stuck b:first=no_match,second=stuck')).toBe(
      'intent b second 1\nanswered b 1 accepted\nleft a idle_for',
    );
    const { owner, findings = [] } = scene.explain('a') ?? {};
    expect(owner?.rule).toBe('first');
    expect(findings.slice(1).map(({ rule, verdict }) => `${rule} ${verdict}`)).toEqual(['second stuck']);
  });

  it('a rule for other accounts is ignored', async () => {
    const section = { rules: [rule('theirs', { accounts: ['other'] }), rule('ours', { accounts: ['production'] })] };
    const scene = await warmScene(section);
    expect(await scene.walk('a b:ours=no_match')).toBe('intent a ours 1\nanswered a 1 accepted');
  });

  it('a callback without an id is skipped', async () => {
    const scene = await warmScene({ idFrom: 'messageId', rules: [rule('jobs')] });
    scene.rows.set('b', { messageId: undefined });
    expect(await scene.walk('a b')).toBe('intent a jobs 1\nanswered a 1 accepted\nleft b no_id');
    expect(scene.sent).toEqual(['m-a']);
    expect(scene.explain('b')?.findings[0]?.reason).toBe('no_id');
  });

  it('an entry is skipped if a match condition is unknown', async () => {
    const scene = await warmScene();
    expect(await scene.walk('a:unknown_label b:no_match')).toBe('left a unknown_label');
    expect(scene.sent).toEqual([]);
    expect(scene.autoCancel().numbers().skips).toMatchObject([{ rule: 'jobs', reason: 'unknown_label', count: 1 }]);
  });

  it('each cancel after the first waits for the configured spacing', async () => {
    const scene = await warmScene({ limits: { spacing: '7s', perRun: 9 }, rules: [rule('jobs')] });
    const times: number[] = [];
    scene.onSend = () => times.push(scene.clock.monotonic());
    await scene.walk('a b c');
    expect(times.map((time, index) => time - (times[index - 1] ?? time))).toEqual([0, 7 * SECOND, 7 * SECOND]);
  });

  it('the reason for skipping a callback is reported once', async () => {
    const scene = await warmScene();
    scene.isStopped = true;
    expect(await scene.walk('a')).toBe('left a stop_file');
    expect(await scene.again()).toBe('');
    scene.isStopped = false;
    scene.firing.add('Down');
    expect(await scene.walk('a')).toMatch(/^intent a/);
    expect(scene.autoCancel().numbers().skips).toMatchObject([{ rule: 'jobs', reason: 'stop_file', count: 1 }]);
  });
});

describe('final check', () => {
  it.each([
    ['success', 'left a now_success'],
    ['fail', 'left a now_fail'],
    ['canceled', 'left a now_canceled'],
    ['unknown', 'left a now_unknown'],
    [undefined, 'left a now_unreported'],
    ['gone', 'left a now_gone'],
  ] as const)('the final check prevents the cancel if the callback state is %s', async (state, expected) => {
    const scene = await warmScene();
    scene.states.set('a', state);
    expect(await scene.walk('a')).toBe(expected);
    expect(scene.sent).toEqual([]);
  });

  it('the final check prevents the cancel if the callback was sent again after the walk', async () => {
    const scene = await warmScene();
    await scene.walk('a:idle_for');
    scene.messages.set('a', 'c1');
    await scene.walk('a:idle_for');
    await scene.wait(MINUTE);
    // The callback changes after the walk.
    const walked = scene.walk('a');
    scene.messages.set('a', 'c2');
    expect(await walked).toBe('left a another_episode');
    expect(scene.sent).toEqual([]);
  });

  it('a failed final check prevents the cancel and is repeated after the next walk', async () => {
    const scene = await warmScene();
    scene.failing = new UpstreamError('server', 'GET /v2/dlq: 500', { status: 500 });
    expect(await scene.walk('a')).toBe('left a look_failed');
    scene.failing = undefined;
    expect(await scene.again()).toBe('intent a jobs 1\nanswered a 1 accepted');
  });
});

describe('failed runs', () => {
  it('a run sends nothing if the intent cannot be stored, and is repeated after 30 s', async () => {
    const scene = await warmScene();
    scene.failCommitsAfter(0);
    await expect(scene.walk('a b')).rejects.toThrow('disk full');
    expect(scene.sent).toEqual([]);
    scene.failCommitsAfter(undefined);
    expect(await scene.wait(29 * SECOND)).toBe('');
    expect(await scene.wait(SECOND)).toMatch(/^intent a/);
    expect(scene.sent).toEqual(['a', 'b']);
  });

  it('if a rejected commit has stored an intent, the callback is read back before a cancel is sent', async () => {
    const scene = await warmScene();
    scene.failedCommitsAreWritten = true;
    scene.failCommitsAfter(0);
    await expect(scene.walk('a')).rejects.toThrow('disk full');
    scene.failCommitsAfter(undefined);
    expect(await scene.wait(30 * SECOND)).toBe('intent a jobs 1');
    await scene.wait(5 * SECOND);
    await scene.wait(10 * SECOND);
    await scene.wait(45 * SECOND);
    expect(scene.sent).toEqual([]);
    expect(await scene.again()).toMatch(/^intent a jobs 2\n/);
    expect(scene.sent).toEqual(['a']);
  });

  it('a cancel is not sent again if its response could not be stored, with or without a restart', async () => {
    for (const dies of [false, true]) {
      const scene = await warmScene();
      scene.onSend = () => {
        scene.failCommitsAfter(0);
      };
      await expect(scene.walk('a b')).rejects.toThrow('disk full');
      expect(scene.sent).toEqual(['a']);
      scene.onSend = () => undefined;
      scene.failCommitsAfter(undefined);
      if (dies) await scene.restart();
      expect(await scene.wait(MINUTE)).toContain('intent a jobs 1\nended a confirmed read_canceled unproven');
      await scene.warm();
      expect(scene.sent.filter(id => id === 'a')).toEqual(['a']);
    }
  });
});

it('all stuck callbacks of a walk are cancelled', async () => {
  const scene = await warmScene();
  expect(await scene.walk('a b')).toBe(
    'intent a jobs 1\nanswered a 1 accepted\nintent b jobs 1\nanswered b 1 accepted',
  );
  expect(await scene.wait(0)).toBe('ended a confirmed read_canceled\nended b confirmed read_canceled');
  expect([...scene.autoCancel().numbers().candidates]).toEqual([['jobs', 2]]);
});
