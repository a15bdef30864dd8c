import { describe, expect, it } from 'vitest';
import type { CallbackState } from '../../src/model/message.ts';
import { UpstreamError } from '../../src/upstream/errors.ts';
import { DAY, HOUR, MINUTE, rule, SECOND } from '../support/auto-cancel-options.ts';
import { createScene } from '../support/auto-cancel-scene.ts';

const REPORTED = { rules: [rule('jobs')] };
const BLIND = {
  rules: [
    rule('jobs', { evidence: 'blind', acceptUnverified: true, stuckWhen: { seenFor: '72h' }, recheckAfter: '24h' }),
  ],
};

/** A cancel that was answered like this. */
async function answered(answer: string, section: object = REPORTED) {
  const scene = await createScene(section);
  await scene.warm();
  scene.answers = [answer];
  return { scene, told: await scene.walk('a') };
}

/** What is told at each of the looks, so many seconds after the answer. */
async function looks(scene: Awaited<ReturnType<typeof createScene>>, ...seconds: number[]) {
  const from = scene.clock.monotonic();
  const told: string[] = [];
  for (const second of seconds) told.push(await scene.wait(from + second * SECOND - scene.clock.monotonic()));
  return told;
}

describe('an answer that settles it', () => {
  it.each([
    ['404', 'answered a 1 missing\nended a gone answer_missing'],
    [
      '401',
      'answered a 1 denied\nended a rejected answer_denied\nopened errors (the service refused a cancel with 401)',
    ],
    ['429', 'answered a 1 limited\nended a expired answer_limited'],
    ['unsent', 'answered a 1 not_sent\nended a expired answer_not_sent'],
  ])('%s', async (answer, expected) => {
    const { scene, told } = await answered(answer);
    expect(told).toBe(`intent a jobs 1\n${expected}`);
    expect(await scene.wait(HOUR)).toBe('');
  });

  it.each(['429', 'unsent'])('%s lets it be tried again, evaluated anew', async answer => {
    const { scene } = await answered(answer);
    expect(await scene.again()).toBe('intent a jobs 2\nanswered a 2 accepted');
    expect(await scene.wait(0)).toBe('ended a confirmed read_canceled');
  });

  it.each(['404', '401'])('%s is final', async answer => {
    const { scene } = await answered(answer);
    await scene.journal().append([{ at: 0, step: 'breaker_reset', breaker: 'errors', by: 'ann', reason: 'r' }]);
    expect(await scene.again()).toBe('reset errors');
    expect(scene.sent).toEqual(['a']);
  });
});

describe('what is read back', () => {
  it.each<[string, CallbackState | 'gone' | undefined, string]>([
    ['302', 'canceled', 'ended a confirmed read_canceled'],
    ['400', 'canceled', 'ended a confirmed read_canceled unproven'],
    ['500', 'canceled', 'ended a confirmed read_canceled unproven'],
    ['timeout', 'canceled', 'ended a confirmed read_canceled unproven'],
    ['302', 'success', 'ended a superseded read_success'],
    ['400', 'fail', 'ended a superseded read_fail'],
    ['500', 'gone', 'ended a gone not_listed'],
  ])('after %s: %s', async (answer, state, expected) => {
    const { scene } = await answered(answer);
    scene.states.set('a', state);
    expect(await looks(scene, 0, 5, 15, 60)).toEqual([expected, '', '', '']);
    expect(await scene.again()).toBe('');
    expect(scene.sent).toEqual(['a']);
  });

  it.each([
    [[0], 5],
    [[0, 5], 15],
    [[0, 5, 15], 60],
  ])('is looked for %j, and then %i seconds after the answer', async (before, next) => {
    const { scene } = await answered('302');
    const from = scene.clock.monotonic();
    await looks(scene, ...before);
    scene.states.set('a', 'canceled');
    expect(await scene.wait(from + next * SECOND - 1 - scene.clock.monotonic())).toBe('');
    expect(await scene.wait(1)).toBe('ended a confirmed read_canceled');
  });

  it.each([
    ['unknown', 'read_unknown'],
    [undefined, 'read_unreported'],
  ] as const)('may be that nobody can tell: %s', async (state, reason) => {
    const { scene } = await answered('302');
    scene.states.set('a', state);
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', `ended a gave_up ${reason}`]);
  });

  it('is nothing that a refusal could mean but wrong information', async () => {
    const { scene } = await answered('400');
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', 'ended a gave_up refused_while_in_progress']);
    expect(await scene.again()).toBe('');
  });

  it('lets a second attempt be made, after a walk, and no third', async () => {
    const { scene } = await answered('500');
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', '']);
    scene.answers = ['500'];
    expect(await scene.again()).toBe('intent a jobs 2\nanswered a 2 unknown');
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', 'ended a gave_up still_in_progress']);
    expect(await scene.again()).toBe('');
    expect(scene.sent).toEqual(['a', 'a']);
  });

  it('forbids a second attempt before the last look', async () => {
    const { scene } = await answered('500');
    expect(await scene.wait(0)).toBe('');
    scene.states.set('a', 'unknown');
    await looks(scene, 5, 15);
    expect(await scene.walk('a')).toContain('gave_up read_unknown');
    expect(scene.sent).toEqual(['a']);
  });

  it('keeps another episode of the same callback from being acted upon, and is given up when its own is over', async () => {
    const { scene } = await answered('500');
    expect(await scene.wait(0)).toBe('');
    scene.answers = ['302!'];
    expect(await scene.walk('a#2')).toBe('left a unresolved');
    expect(await looks(scene, 0, 5, 15)).toEqual(['', '', '']);
    expect(await scene.again()).toBe('ended a gave_up not_tracked\nintent a jobs 1\nanswered a 1 accepted');
    expect(await scene.wait(0)).toBe('ended a confirmed read_canceled');
  });

  it('is given up when its episode is over after the last look', async () => {
    const { scene } = await answered('500');
    await looks(scene, 0, 5, 15, 60);
    expect(await scene.walk('b:idle_for')).toContain('ended a gave_up not_tracked');
    expect(await scene.walk('a#2')).toContain('intent a jobs 1');
  });

  it('is given up after a restart without its rule', async () => {
    const { scene } = await answered('500');
    await scene.restart({ rules: [] });
    await scene.walk('a');
    await looks(scene, 0, 5, 15, 60);
    expect(await scene.walk('a')).toBe('');
    expect(await scene.walk('a')).toBe('ended a gave_up not_tracked');
  });

  it('does not forbid the second attempt to anybody who was not sent the first', async () => {
    const { scene } = await answered('429');
    scene.answers = ['unsent', '500', '500'];
    await scene.again();
    await scene.again();
    await looks(scene, 0, 5, 15, 60);
    expect(await scene.again()).toContain('intent a jobs 4');
    expect(scene.sent).toHaveLength(4);
  });

  it('comes later when the look fails', async () => {
    const { scene } = await answered('302!');
    scene.failing = new UpstreamError('server', 'GET /v2/dlq: 500', { status: 500 });
    expect(await scene.wait(0)).toBe('');
    scene.failing = undefined;
    expect(await scene.wait(MINUTE - 1)).toBe('');
    expect(await scene.wait(1)).toBe('ended a confirmed read_canceled');
  });

  it('is of an intent without an answer, too, which is never sent by whoever finds it', async () => {
    const scene = await createScene(REPORTED);
    await scene.warm();
    scene.onSend = () => {
      scene.failCommitsAfter(0);
    };
    scene.answers = ['302'];
    await expect(scene.walk('a')).rejects.toThrow('disk full');
    scene.failCommitsAfter(undefined);
    await scene.restart();
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['intent a jobs 1', '', '', '']);
    const inFlight = async () => (await scene.store.scan('production', 'auto-cancel/sending')).size;
    expect(await inFlight()).toBe(1);
    // Before the first three walks nobody is evaluated, but looked at.
    scene.states.set('a', 'canceled');
    await scene.walk('');
    await scene.walk('');
    expect(await scene.walk('')).toBe('ended a confirmed read_canceled unproven');
    expect([scene.sent, await inFlight()]).toEqual([['a'], 0]);
  });
});

it('sends no second cancel upon a walk that began before the first, although its decisions are made again', async () => {
  const scene = await createScene(REPORTED);
  await scene.warm();
  scene.answers = ['500'];
  scene.onSend = () => scene.failCommitsAfter(0);
  await expect(scene.walk('a b')).rejects.toThrow('disk full');
  // All looks are made, and each decision fails at the intent of b.
  for (let run = 0; run < 6; run += 1) await expect(scene.wait(30 * SECOND)).rejects.toThrow('disk full');
  scene.failCommitsAfter(undefined);
  scene.onSend = () => undefined;
  expect(await scene.wait(30 * SECOND)).toContain('intent b jobs 1');
  expect(scene.sent).toEqual(['a', 'b']);
  expect(await scene.walk('a')).toContain('intent a jobs 2');
});

describe('a blind cancel', () => {
  async function blind(answer: string) {
    const scene = await createScene(BLIND);
    await scene.warm();
    scene.states.set('a', undefined);
    scene.answers = [answer];
    return { scene, told: await scene.walk('a') };
  }

  it.each([
    ['302', 'answered a 1 accepted\nended a accepted_unverified answer_accepted'],
    ['500', 'answered a 1 unknown\nended a unknown_final answer_unknown'],
    ['timeout', 'answered a 1 unknown\nended a unknown_final answer_unknown'],
    ['404', 'answered a 1 missing\nended a gone answer_missing'],
  ])('is final with the answer %s', async (answer, expected) => {
    const { scene, told } = await blind(answer);
    expect(told).toBe(`intent a jobs 1\n${expected}`);
    for (let day = 0; day < 3; day += 1) {
      await scene.wait(DAY);
      expect(await scene.walk('a')).toBe('');
    }
    expect(scene.sent).toEqual(['a']);
  });

  it('is refused when none is in progress: remembered for recheckAfter, across a restart, outside the breakers', async () => {
    const { scene, told } = await blind('400');
    expect(told).toBe('intent a jobs 1\nanswered a 1 refused\nended a not_in_progress answer_refused');
    const at = scene.clock.now();
    await scene.restart();
    await scene.warm();
    expect(await scene.walk('a')).toBe('left a not_in_progress_lately');
    await scene.wait(at + DAY - MINUTE - 1 - scene.clock.now());
    expect(await scene.walk('a')).toBe('');
    await scene.wait(1 - MINUTE);
    expect(await scene.walk('a')).toContain('intent a jobs 2');
    const { errors, races } = scene.journal().state;
    expect([errors, races]).toEqual([[], []]);
  });

  it('is never sent again when its answer is lost with the process', async () => {
    const scene = await createScene(BLIND);
    await scene.warm();
    scene.states.set('a', undefined);
    scene.onSend = () => {
      scene.failCommitsAfter(0);
    };
    await expect(scene.walk('a')).rejects.toThrow('disk full');
    scene.failCommitsAfter(undefined);
    await scene.restart();
    expect(await scene.wait(0)).toBe('intent a jobs 1\nended a unknown_final no_answer');
    await scene.warm();
    expect(await scene.walk('a')).toBe('');
    expect(scene.sent).toEqual(['a']);
  });

  it('is not made of what reports a state at the last look', async () => {
    const scene = await createScene(BLIND);
    await scene.warm();
    expect(await scene.walk('a')).toBe('left a now_in_progress');
    expect(scene.sent).toEqual([]);
  });
});
