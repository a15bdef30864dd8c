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

/** Sends a cancel that gets this response. */
async function answered(answer: string, section: object = REPORTED) {
  const scene = await createScene(section);
  await scene.warm();
  scene.answers = [answer];
  return { scene, result: await scene.walk('a') };
}

/** Returns the journal words of the read-backs at these times after the response (seconds). */
async function looks(scene: Awaited<ReturnType<typeof createScene>>, ...seconds: number[]) {
  const from = scene.clock.monotonic();
  const result: string[] = [];
  for (const second of seconds) result.push(await scene.wait(from + second * SECOND - scene.clock.monotonic()));
  return result;
}

describe('a conclusive response', () => {
  it.each([
    ['404', 'answered a 1 missing\nended a gone answer_missing'],
    [
      '401',
      'answered a 1 denied\nended a rejected answer_denied\nopened errors (the service refused a cancel with 401)',
    ],
    ['429', 'answered a 1 limited\nended a expired answer_limited'],
    ['unsent', 'answered a 1 not_sent\nended a expired answer_not_sent'],
  ])('%s', async (answer, expected) => {
    const { scene, result } = await answered(answer);
    expect(result).toBe(`intent a jobs 1\n${expected}`);
    expect(await scene.wait(HOUR)).toBe('');
  });

  it.each(['429', 'unsent'])('%s permits another attempt after a new evaluation', async answer => {
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

describe('an open cancel', () => {
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
  ])('is read back after %j seconds, and then %i seconds after the response', async (before, next) => {
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
  ] as const)('is given up if the callback state stays unknown: %s', async (state, reason) => {
    const { scene } = await answered('302');
    scene.states.set('a', state);
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', `ended a gave_up ${reason}`]);
  });

  it('is given up if it was refused and is still in progress', async () => {
    const { scene } = await answered('400');
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', 'ended a gave_up refused_while_in_progress']);
    expect(await scene.again()).toBe('');
  });

  it('has a second attempt after a walk, but no third', async () => {
    const { scene } = await answered('500');
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', '']);
    scene.answers = ['500'];
    expect(await scene.again()).toBe('intent a jobs 2\nanswered a 2 unknown');
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', 'ended a gave_up still_in_progress']);
    expect(await scene.again()).toBe('');
    expect(scene.sent).toEqual(['a', 'a']);
  });

  it('has no second attempt before its last read-back', async () => {
    const { scene } = await answered('500');
    expect(await scene.wait(0)).toBe('');
    scene.states.set('a', 'unknown');
    await looks(scene, 5, 15);
    expect(await scene.walk('a')).toContain('gave_up read_unknown');
    expect(scene.sent).toEqual(['a']);
  });

  it('blocks a later episode of the callback until it is given up', async () => {
    const { scene } = await answered('500');
    expect(await scene.wait(0)).toBe('');
    scene.answers = ['302!'];
    expect(await scene.walk('a#2')).toBe('left a unresolved');
    expect(await looks(scene, 0, 5, 15)).toEqual(['', '', '']);
    expect(await scene.again()).toBe('ended a gave_up not_tracked\nintent a jobs 1\nanswered a 1 accepted');
    expect(await scene.wait(0)).toBe('ended a confirmed read_canceled');
  });

  it('is given up if its episode has ended after the last read-back', async () => {
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

  it('has further attempts as long as none reached the service', async () => {
    const { scene } = await answered('429');
    scene.answers = ['unsent', '500', '500'];
    await scene.again();
    await scene.again();
    await looks(scene, 0, 5, 15, 60);
    expect(await scene.again()).toContain('intent a jobs 4');
    expect(scene.sent).toHaveLength(4);
  });

  it('is read back again a minute after a failed read-back', async () => {
    const { scene } = await answered('302!');
    scene.failing = new UpstreamError('server', 'GET /v2/dlq: 500', { status: 500 });
    expect(await scene.wait(0)).toBe('');
    scene.failing = undefined;
    expect(await scene.wait(MINUTE - 1)).toBe('');
    expect(await scene.wait(1)).toBe('ended a confirmed read_canceled');
  });

  it('without a response is read back after a restart and never sent again', async () => {
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
    // Read-backs do not wait for the first three walks.
    scene.states.set('a', 'canceled');
    await scene.walk('');
    await scene.walk('');
    expect(await scene.walk('')).toBe('ended a confirmed read_canceled unproven');
    expect([scene.sent, await inFlight()]).toEqual([['a'], 0]);
  });
});

it('a repeated decision sends no second cancel for a walk that started before the first', async () => {
  const scene = await createScene(REPORTED);
  await scene.warm();
  scene.answers = ['500'];
  scene.onSend = () => scene.failCommitsAfter(0);
  await expect(scene.walk('a b')).rejects.toThrow('disk full');
  // All read-backs are done, and each decision fails at the intent of b.
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
    return { scene, result: await scene.walk('a') };
  }

  it.each([
    ['302', 'answered a 1 accepted\nended a accepted_unverified answer_accepted'],
    ['500', 'answered a 1 unknown\nended a unknown_final answer_unknown'],
    ['timeout', 'answered a 1 unknown\nended a unknown_final answer_unknown'],
    ['404', 'answered a 1 missing\nended a gone answer_missing'],
  ])('is final with the response %s', async (answer, expected) => {
    const { scene, result } = await blind(answer);
    expect(result).toBe(`intent a jobs 1\n${expected}`);
    for (let day = 0; day < 3; day += 1) {
      await scene.wait(DAY);
      expect(await scene.walk('a')).toBe('');
    }
    expect(scene.sent).toEqual(['a']);
  });

  it('that was refused is not repeated within recheckAfter and does not count for breakers', async () => {
    const { scene, result } = await blind('400');
    expect(result).toBe('intent a jobs 1\nanswered a 1 refused\nended a not_in_progress answer_refused');
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

  it('is never sent again if the process died before the response', async () => {
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

  it('is not sent if the final check finds a reported state', async () => {
    const scene = await createScene(BLIND);
    await scene.warm();
    expect(await scene.walk('a')).toBe('left a now_in_progress');
    expect(scene.sent).toEqual([]);
  });
});
