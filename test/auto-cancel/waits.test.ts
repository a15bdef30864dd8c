import { describe, expect, it } from 'vitest';
import { DAY, HOUR, MINUTE, rule } from '../support/auto-cancel-options.ts';
import { warmScene } from './warm-scene.ts';

describe('grace periods', () => {
  const GRACE = { rules: [rule('jobs', { grace: '30m' })] };

  it('grace ends at the first walk after the grace period, to the millisecond', async () => {
    const scene = await warmScene(GRACE);
    expect(await scene.walk('a')).toBe('marked a jobs\nleft a grace');
    await scene.wait(29 * MINUTE - 1);
    // This walk starts one millisecond too early.
    expect(await scene.walk('a')).toBe('');
    const { at } = (await scene.lines())[0] ?? { at: 0 };
    expect(scene.clock.now()).toBe(at + 30 * MINUTE - 1);
    await scene.wait(1 - MINUTE);
    expect(await scene.walk('a')).toMatch(/^intent a/);
  });

  it('grace restarts if a walk finds the callback healthy before grace ends', async () => {
    const scene = await warmScene(GRACE);
    await scene.walk('a b');
    expect(await scene.walk('a:in_progress_for')).toBe(
      'cleared a in_progress_for\ncleared b not_tracked\nleft a in_progress_for',
    );
    await scene.wait(HOUR);
    expect(await scene.walk('a')).toBe('marked a jobs\nleft a grace');
    expect(scene.sent).toEqual([]);
  });

  it('grace survives a restart', async () => {
    const scene = await warmScene(GRACE);
    await scene.walk('a');
    await scene.wait(HOUR);
    await scene.restart();
    await scene.walk('a');
    await scene.walk('a');
    expect(await scene.walk('a')).toMatch(/^intent a/);
  });

  it('grace also applies to rules in plan mode', async () => {
    const scene = await warmScene({ rules: [rule('jobs', { mode: 'plan', grace: '30m' })] });
    expect(await scene.walk('a')).toBe('marked a jobs\nleft a grace');
    await scene.wait(HOUR);
    expect(await scene.walk('a')).toBe('ended a planned stuck');
  });

  it('grace neither starts nor ends at a partial walk', async () => {
    const scene = await warmScene(GRACE);
    await scene.walk('a');
    scene.isPartial = true;
    expect(await scene.walk('b')).toBe('left b partial');
    scene.isPartial = false;
    await scene.wait(HOUR);
    expect(await scene.walk('a')).toMatch(/^intent a/);
  });
});

describe('approvals', () => {
  const APPROVE = { rules: [rule('jobs', { mode: 'approve' })] };

  async function awaitingApproval() {
    const scene = await warmScene(APPROVE);
    expect(await scene.walk('a b')).toBe(
      'awaiting_approval a jobs\nawaiting_approval b jobs\nleft a awaiting_approval\nleft b awaiting_approval',
    );
    return scene;
  }
  const approve = (scene: Awaited<ReturnType<typeof awaitingApproval>>, action: string) =>
    scene.order({ kind: 'approve', action, by: 'ann' });

  it('approval is requested once, and the approved action then cancels the callback', async () => {
    const scene = await awaitingApproval();
    expect(await scene.again()).toBe('');
    expect(await approve(scene, 'a')).toBe('obeyed');
    expect(await scene.again()).toBe('approved a ann\nintent a jobs 1\nanswered a 1 accepted');
    expect(scene.sent).toEqual(['a']);
    const intent = (await scene.lines()).find(({ step }) => step === 'intent');
    expect(intent).toMatchObject({ approvedBy: 'ann', mode: 'approve' });
  });

  it('an approval is attributed to the first of two operators', async () => {
    const scene = await awaitingApproval();
    expect(await approve(scene, 'a')).toBe('obeyed');
    expect(await scene.order({ kind: 'approve', action: 'a', by: 'bob' })).toBe('obeyed');
    expect(await scene.again()).toBe('approved a ann\napproved a bob\nintent a jobs 1\nanswered a 1 accepted');
    const intent = (await scene.lines()).find(({ step }) => step === 'intent');
    expect(intent).toMatchObject({ approvedBy: 'ann' });
  });

  it('an approval can name an action by its first 6 characters, but not by fewer', async () => {
    const scene = await awaitingApproval();
    const action = (await scene.lines()).find(({ action }) => action !== undefined)?.action ?? '';
    expect(await approve(scene, action.slice(0, 5))).not.toBe('obeyed');
    expect(await approve(scene, action.slice(0, 6))).toBe('obeyed');
    expect(await approve(scene, 'nobody')).toBe('no action nobody waits for approval');
  });

  it('an action can be approved until a day after the request', async () => {
    const scene = await awaitingApproval();
    await scene.wait(DAY - 1);
    expect(await approve(scene, 'b')).toBe('obeyed');
    await scene.wait(1);
    expect(await approve(scene, 'a')).not.toBe('obeyed');
  });

  it('an approval expires after a day, to the millisecond, and is requested again', async () => {
    const scene = await awaitingApproval();
    await approve(scene, 'b');
    await scene.wait(DAY - MINUTE);
    expect(await scene.again()).toContain(
      'cleared a not_approved\ncleared b approval_expired\nawaiting_approval a jobs\nawaiting_approval b jobs',
    );
    expect(scene.sent).toEqual([]);
  });

  it('an approval is discarded if a later walk finds the callback healthy', async () => {
    const scene = await awaitingApproval();
    await approve(scene, 'a');
    expect(await scene.walk('a:in_progress_for b')).toContain('cleared a in_progress_for');
    expect(await scene.walk('a b')).toBe('awaiting_approval a jobs\nleft a awaiting_approval');
    expect(scene.sent).toEqual([]);
  });

  it('approval is requested after grace and applies to one episode only', async () => {
    const scene = await warmScene({ rules: [rule('jobs', { mode: 'approve', grace: '30m' })] });
    expect(await scene.walk('a')).toBe('marked a jobs\nleft a grace');
    expect(await approve(scene, 'a')).not.toBe('obeyed');
    await scene.wait(HOUR);
    expect(await scene.walk('a')).toBe('awaiting_approval a jobs\nleft a awaiting_approval');
    await approve(scene, 'a');
    expect(await scene.walk('a#2')).toContain('cleared a not_tracked\nmarked a jobs');
    expect(scene.sent).toEqual([]);
  });

  it('an approval survives a restart', async () => {
    const scene = await awaitingApproval();
    await approve(scene, 'a');
    await scene.restart();
    await scene.walk('a b');
    await scene.again();
    expect(scene.sent).toEqual([]);
    expect(await scene.again()).toBe('intent a jobs 1\nanswered a 1 accepted\nleft b awaiting_approval');
  });
});
