import { describe, expect, it } from 'vitest';
import { DAY, HOUR, MINUTE, rule, SECOND } from '../support/auto-cancel-options.ts';
import { warmScene } from './warm-scene.ts';

type Scene = Awaited<ReturnType<typeof warmScene>>;

const blindRule = (name: string) =>
  rule(name, { evidence: 'blind', acceptUnverified: true, stuckWhen: { seenFor: '72h' }, recheckAfter: '24h' });

/** Returns a walk with `count` callbacks in the syntax of the scene. */
const many = (count: number, word = '', from = 0) =>
  Array.from({ length: count }, (_, index) => `i${from + index}${word}`).join(' ');

/** Advances time through all read-backs. Each one finds the callback still in progress. */
async function passReadBacks(scene: Scene) {
  for (const seconds of [0, 5, 10, 45]) expect(await scene.wait(seconds * SECOND)).toBe('');
}

async function approve(scene: Scene, id: string) {
  await scene
    .journal()
    .append([{ at: scene.clock.now(), action: scene.explain(id)?.action ?? '', step: 'approved', by: 'ann' }]);
}

describe('event look-ups, at most 25 per walk', () => {
  it('the limit on event look-ups does not hide further candidates from the breaker', async () => {
    const scene = await warmScene({
      breaker: { candidates: { max: 25, percent: 100 } },
      rules: [rule('jobs')],
    });
    for (let index = 0; index < 1000; index += 1) scene.events.set(`m-i${index}`, scene.clock.now() - 3 * HOUR);
    const result = await scene.walk(many(1000, ':asks_events'));
    expect(result).toContain('opened candidates (1000 callbacks seem stuck, more than 25)');
    await scene.again();
    expect(scene.sent).toEqual([]);
  });

  it('event look-ups rotate through the callbacks; callbacks without events do not count towards the breaker', async () => {
    const scene = await warmScene({ breaker: { candidates: { max: 25, percent: 100 } }, rules: [rule('jobs')] });
    for (let index = 55; index < 60; index += 1) scene.events.set(`m-i${index}`, scene.clock.now() - 3 * HOUR);
    await scene.walk(many(60, ':asks_events'));
    await scene.again();
    expect(scene.sent).toEqual([]);
    await scene.again();
    expect(scene.sent).toEqual(['i55', 'i56', 'i57', 'i58', 'i59']);
  });

  it('failed event look-ups are repeated only after all other callbacks have been looked up', async () => {
    const scene = await warmScene();
    for (let index = 0; index < 30; index += 1) {
      scene.events.set(`m-i${index}`, index < 25 ? undefined : scene.clock.now() - 3 * HOUR);
    }
    await scene.walk(many(30, ':asks_events'));
    expect(scene.sent).toEqual([]);
    await scene.again();
    expect(scene.sent).toEqual(['i25', 'i26', 'i27', 'i28', 'i29']);
  });

  it('event look-ups are repeated for each walk', async () => {
    const scene = await warmScene({ rules: [rule('jobs', { grace: '1m' })] });
    scene.events.set('m-a', scene.clock.now() - 3 * HOUR);
    expect(await scene.walk('a:asks_events')).toBe('marked a jobs\nleft a grace');
    scene.events.set('m-a', scene.clock.now());
    expect(await scene.again()).toBe('cleared a idle_for\nleft a idle_for');
    expect(scene.sent).toEqual([]);
  });

  it.each(['use a stale log', 'fail'])('event look-ups that %s prevent a cancel but keep its approval', async why => {
    const scene = await warmScene({ rules: [rule('jobs', { mode: 'approve' })] });
    scene.events.set('m-a', scene.clock.now() - 3 * HOUR);
    await scene.walk('a:asks_events');
    await approve(scene, 'a');
    if (why === 'fail') scene.events.set('m-a', undefined);
    else scene.eventsAreFresh = false;
    expect(await scene.again()).toBe('approved a ann\nleft a unknown_idle_for');
    scene.eventsAreFresh = true;
    scene.events.set('m-a', scene.clock.now() - 3 * HOUR);
    expect(await scene.again()).toBe('intent a jobs 1\nanswered a 1 accepted');
  });

  it('an approval is discarded if the look-up finds no events', async () => {
    const scene = await warmScene({ rules: [rule('jobs', { mode: 'approve' })] });
    scene.events.set('m-a', scene.clock.now() - 3 * HOUR);
    await scene.walk('a:asks_events');
    await approve(scene, 'a');
    scene.events.delete('m-a');
    expect(await scene.again()).toBe('approved a ann\ncleared a unknown_idle_for\nleft a unknown_idle_for');
  });
});

describe('second attempts in approve mode', () => {
  const section = (mode: string) => ({ rules: [rule('jobs', { mode })] });

  it('a second attempt is not made without an approval if the rule changed from enforce to approve', async () => {
    const scene = await warmScene(section('enforce'));
    scene.answers = ['500'];
    await scene.walk('a');
    await scene.restart(section('approve'));
    await scene.warm();
    await passReadBacks(scene);
    expect(await scene.walk('a')).toBe('ended a gave_up may_no_longer_act');
    expect(await scene.again()).toBe('');
    expect(scene.sent).toEqual(['a']);
  });

  it('a second attempt is made with the approval of the first one', async () => {
    const scene = await warmScene(section('approve'));
    scene.answers = ['500'];
    await scene.walk('a');
    await approve(scene, 'a');
    await scene.again();
    await passReadBacks(scene);
    expect(await scene.walk('a')).toBe('intent a jobs 2\nanswered a 2 accepted');
  });
});

describe('blind cancels', () => {
  async function blind(answer: string, section: object = {}) {
    const scene = await warmScene({ ...section, rules: [blindRule('jobs')] });
    scene.states.set('a', undefined);
    scene.answers = [answer];
    await scene.walk('a');
    return scene;
  }

  it.each(['500', 'timeout', '302', '404'])(
    'after a blind cancel with the response %s, no further cancel is sent for its id, even in later episodes',
    async answer => {
      const scene = await blind(answer);
      expect(await scene.walk('a#2')).toBe('left a sent_before');
      await scene.wait(30 * DAY);
      await scene.restart({ rules: [blindRule('renamed')] });
      await scene.warm();
      expect(await scene.walk('a#3')).toBe('left a sent_before');
      expect(scene.sent).toEqual(['a']);
    },
  );

  it('if the response to a blind cancel was not stored, no further cancel is sent for the same callback id', async () => {
    const scene = await warmScene({ rules: [blindRule('jobs')] });
    scene.states.set('a', undefined);
    scene.onSend = () => scene.failCommitsAfter(0);
    await expect(scene.walk('a')).rejects.toThrow('disk full');
    scene.failCommitsAfter(undefined);
    await scene.restart();
    await scene.warm();
    expect(await scene.walk('a#2')).toBe('left a sent_before');
  });

  it('a blind cancel does not prevent a rule with reported evidence from cancelling a later episode', async () => {
    const scene = await blind('302');
    await scene.restart({ rules: [rule('reported')] });
    await scene.warm();
    scene.states.set('a', 'in_progress');
    expect(await scene.walk('a#2')).toMatch(/^intent a reported 1\n/);
  });

  it('a refused blind cancel is not repeated within recheckAfter, even in later episodes', async () => {
    const scene = await blind('400');
    const at = scene.clock.now();
    expect(await scene.walk('a#2')).toBe('left a not_in_progress_lately');
    await scene.wait(at + DAY - MINUTE - 1 - scene.clock.now());
    expect(await scene.walk('a#3')).toBe('left a not_in_progress_lately');
    await scene.wait(1 - MINUTE);
    expect(await scene.walk('a#3')).toMatch(/^intent a jobs 1\n/);
  });

  it.each(['429', 'unsent'])('a blind cancel with the result %s may be repeated', async answer => {
    const scene = await blind(answer);
    expect(await scene.walk('a#2')).toMatch(/^intent a jobs 1\n/);
  });

  it('a refused blind cancel does not count towards the candidate breaker', async () => {
    const scene = await warmScene({ breaker: { candidates: { max: 3, percent: 100 } }, rules: [blindRule('jobs')] });
    for (let index = 0; index < 6; index += 1) scene.states.set(`i${index}`, undefined);
    scene.answers = ['400', '400', '400', '400', '400', '400'];
    await scene.walk(many(3));
    expect(await scene.walk(many(6))).not.toContain('opened');
    expect(scene.sent).toHaveLength(6);
  });
});

it('a process that is paused for more than 30 s after writing an intent does not send the cancel', async () => {
  const scene = await warmScene();
  // A paused process runs no timer, so the request's deadline cannot abort it.
  scene.onTurn = () => scene.clock.sleep(31 * SECOND);
  await scene.walk('a');
  expect(scene.sent).toEqual([]);
  const answered = (await scene.lines()).filter(({ step }) => step === 'answered');
  expect(answered).toMatchObject([{ answer: { kind: 'not_sent', why: 'too_late' } }]);
});

describe('spacing between cancels', () => {
  const SPACED = { limits: { perRun: 9, perHour: 99, perDay: 99, spacing: '1h' }, rules: [rule('jobs')] };

  it('spacing also applies between cancels from different walks and processes', async () => {
    const scene = await warmScene(SPACED);
    const times: number[] = [];
    scene.onSend = () => times.push(scene.clock.now());
    await scene.walk('a');
    await scene.walk('b');
    await scene.restart();
    await scene.warm();
    await scene.walk('c');
    expect(times.map((time, index) => time - (times[index - 1] ?? time))).toEqual([0, HOUR, HOUR]);
  });

  it('spacing does not delay skipped or planned callbacks', async () => {
    const scene = await warmScene({
      ...SPACED,
      rules: [rule('jobs', { limits: { perRun: 1, perHour: 9 } }), rule('plans', { mode: 'plan' })],
    });
    const at = scene.clock.monotonic();
    await scene.walk(`z:jobs=no_match,plans=stuck ${many(20, ':jobs=stuck,plans=no_match')}`);
    expect([scene.sent, scene.clock.monotonic() - at]).toEqual([['i0'], MINUTE]);
  });

  /** Calls `happens` at the end of the wait before the second of two cancels. */
  async function duringWait(happens: (scene: Scene) => void) {
    const scene = await warmScene(SPACED);
    const { sleep } = scene.clock;
    scene.clock.sleep = async ms => {
      await sleep(ms);
      happens(scene);
    };
    return { scene, result: await scene.walk('a b') };
  }

  it.each([
    ['stop_file', { isStopped: true }],
    ['stale', { isFresh: false }],
    ['partial', { isPartial: true }],
  ] as const)('all stages are checked again after the wait for spacing: %s', async (reason, change) => {
    const { scene, result } = await duringWait(scene => Object.assign(scene, change));
    expect(result).toBe(`intent a jobs 1\nanswered a 1 accepted\nleft b ${reason}`);
    expect(scene.sent).toEqual(['a']);
  });

  it('a walk that completes during the wait for spacing is evaluated after the wait', async () => {
    const { scene, result } = await duringWait(scene => scene.list('a b:idle_for'));
    expect(result).toBe('intent a jobs 1\nanswered a 1 accepted');
    expect(await scene.wait(0)).toContain('left b idle_for');
    expect(scene.sent).toEqual(['a']);
  });
});

describe('limit per walk', () => {
  it('the limit per walk is not reset if a decision is repeated after a failed commit', async () => {
    const scene = await warmScene({
      limits: { perRun: 2, perHour: 99, perDay: 99, spacing: '0s' },
      rules: [rule('jobs')],
    });
    scene.onSend = id => {
      if (id === 'b') scene.failCommitsAfter(0);
    };
    await expect(scene.walk('a b c d')).rejects.toThrow('disk full');
    scene.failCommitsAfter(undefined);
    expect(await scene.wait(30 * SECOND)).toContain('left c limit_run\nleft d limit_run');
    expect(scene.sent).toEqual(['a', 'b']);
    await scene.again();
    expect(scene.sent).toEqual(['a', 'b', 'c', 'd']);
  });

  it('the limit per walk counts plans and cancels separately', async () => {
    const scene = await warmScene({
      limits: { perRun: 1, perHour: 99, perDay: 99, spacing: '0s' },
      rules: [rule('plans', { mode: 'plan' }), rule('acts')],
    });
    expect(
      await scene.walk('a:plans=stuck,acts=no_match b:plans=no_match,acts=stuck c:plans=stuck,acts=no_match'),
    ).toBe('ended a planned stuck\nintent b acts 1\nanswered b 1 accepted\nleft c limit_run');
  });
});

it('a rule waits for its own grace period, regardless of the grace period of another rule', async () => {
  const scene = await warmScene({ rules: [rule('quick', { grace: '30m' })] });
  expect(await scene.walk('a')).toBe('marked a quick\nleft a grace');
  await scene.restart({ rules: [rule('slow', { grace: '24h' })] });
  expect(await scene.walk('a')).toBe('left a too_early');
  expect(await scene.walk('a')).toBe('');
  await scene.wait(HOUR);
  expect(await scene.walk('a')).toBe('cleared a rule_changed\nmarked a slow\nleft a grace');
  await scene.wait(HOUR);
  expect(await scene.again()).toBe('');
  await scene.wait(DAY);
  expect(await scene.again()).toMatch(/^intent a slow/);
});

describe('invalid ids', () => {
  it.each(['dlq:1', '', '../a', 'a b', 'x'.repeat(201)])(
    'the invalid id %j is treated as missing and counts against no limit',
    async dlqId => {
      const scene = await warmScene({ rules: [rule('jobs', { limits: { perRun: 9, perHour: 1 } })] });
      scene.rows.set('a', { dlqId });
      expect(await scene.walk('a')).toBe(`left ${dlqId} no_id`);
      expect(await scene.walk('a b')).toContain('intent b jobs 1');
      expect(scene.sent).toEqual(['b']);
    },
  );
});

describe('callback states that only the workflow list reports', () => {
  it('the callback state is read from the workflow list before and after a cancel', async () => {
    const scene = await warmScene();
    scene.states.set('a', undefined);
    scene.workflowStates.set('a', 'in_progress');
    expect(await scene.walk('a')).toBe('intent a jobs 1\nanswered a 1 accepted');
    scene.states.set('a', undefined);
    scene.workflowStates.set('a', 'canceled');
    expect(await scene.wait(0)).toBe('ended a confirmed read_canceled');
  });

  it('a final state in the workflow list prevents a cancel', async () => {
    const scene = await warmScene();
    scene.states.set('a', undefined);
    scene.workflowStates.set('a', 'success');
    expect(await scene.walk('a')).toBe('left a now_success');
  });

  it('the callback state is unreported if the workflow list lacks the entry', async () => {
    const scene = await warmScene();
    scene.states.set('a', undefined);
    scene.workflowStates.set('b', 'in_progress');
    expect(await scene.walk('a')).toBe('left a now_unreported');
  });
});

describe('open cancels', () => {
  it('an open cancel is still read back if the service rate-limits the second attempt', async () => {
    const scene = await warmScene();
    scene.answers = ['500', '429'];
    await scene.walk('a');
    await passReadBacks(scene);
    expect(await scene.again()).toBe('intent a jobs 2\nanswered a 2 limited');
    scene.states.set('a', 'canceled');
    expect(await scene.wait(0)).toBe('ended a confirmed read_canceled unproven');
  });

  it('an open cancel is read back every hour even if no walk completes', async () => {
    const scene = await warmScene();
    scene.answers = ['500'];
    await scene.walk('a');
    await passReadBacks(scene);
    scene.hasFacts = false;
    expect(await scene.wait(HOUR)).toBe('');
    scene.states.set('a', 'success');
    expect(await scene.wait(HOUR - 1)).toBe('');
    expect(await scene.wait(1)).toBe('ended a superseded read_success');
  });

  it('while a callback is listed, its explanation shows that its cancel was given up', async () => {
    const scene = await warmScene();
    scene.answers = ['400'];
    await scene.walk('a');
    for (const seconds of [0, 5, 10, 45]) await scene.wait(seconds * SECOND);
    await scene.again();
    expect(scene.explain('a')).toMatchObject({ held: 'gave_up', outcome: 'gave_up', attempts: 1 });
  });
});
