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

/** Completes a walk that sends a cancel. `answer`: scripted response to the cancel. */
async function answered(answer: string, section: object = REPORTED) {
  const scene = await createScene(section);
  await scene.warm();
  scene.answers = [answer];
  return { scene, result: await scene.walk('a') };
}

/** Returns the journal lines added by runs at these times (seconds after the response). */
async function looks(scene: Awaited<ReturnType<typeof createScene>>, ...seconds: number[]) {
  const from = scene.clock.monotonic();
  const result: string[] = [];
  for (const second of seconds) result.push(await scene.wait(from + second * SECOND - scene.clock.monotonic()));
  return result;
}

describe('conclusive responses to a cancel', () => {
  it.each([
    ['404', 'answered a 1 missing\nended a gone answer_missing'],
    [
      '401',
      'answered a 1 denied\nended a expired answer_denied\nopened errors (the service refused a cancel with 401)',
    ],
    [
      '405',
      'answered a 1 denied\nended a rejected answer_denied\nopened errors (the service refused a cancel with 405)',
    ],
    ['429', 'answered a 1 limited\nended a expired answer_limited'],
    ['unsent', 'answered a 1 not_sent\nended a expired answer_not_sent'],
  ])('a cancel with the conclusive response %s is journaled and not read back', async (answer, expected) => {
    const { scene, result } = await answered(answer);
    expect(result).toBe(`intent a jobs 1\n${expected}`);
    expect(await scene.wait(HOUR)).toBe('');
  });

  it.each(['429', 'unsent'])(
    'a cancel with the response %s may be attempted again after a new evaluation',
    async answer => {
      const { scene } = await answered(answer);
      expect(await scene.again()).toBe('intent a jobs 2\nanswered a 2 accepted');
      expect(await scene.wait(0)).toBe('ended a confirmed read_canceled');
    },
  );

  it.each(['401', '403'])(
    'a cancel with the response %s may be attempted again after a new evaluation, once the error breaker is reset',
    async answer => {
      const { scene } = await answered(answer);
      expect(await scene.again()).toBe('left a breaker_errors');
      await scene.journal().append([{ at: 0, step: 'breaker_reset', breaker: 'errors', by: 'ann', reason: 'r' }]);
      expect(await scene.wait(HOUR)).toBe('reset errors');
      expect(scene.sent).toEqual(['a']);
      expect(await scene.again()).toBe('intent a jobs 2\nanswered a 2 accepted');
      expect(await scene.wait(0)).toBe('ended a confirmed read_canceled');
    },
  );

  it.each(['404', '405'])('a cancel with the response %s is final', async answer => {
    const { scene } = await answered(answer);
    await scene.journal().append([{ at: 0, step: 'breaker_reset', breaker: 'errors', by: 'ann', reason: 'r' }]);
    expect(await scene.again()).toBe('reset errors');
    expect(scene.sent).toEqual(['a']);
  });
});

describe('open cancels', () => {
  it.each<[string, CallbackState | 'gone' | undefined, string]>([
    ['302', 'canceled', 'ended a confirmed read_canceled'],
    ['400', 'canceled', 'ended a confirmed read_canceled unproven'],
    ['500', 'canceled', 'ended a confirmed read_canceled unproven'],
    ['timeout', 'canceled', 'ended a confirmed read_canceled unproven'],
    ['302', 'success', 'ended a superseded read_success'],
    ['400', 'fail', 'ended a superseded read_fail'],
    ['500', 'gone', 'ended a gone not_listed'],
  ])('an open cancel with the response %s and the callback state %s ends: %s', async (answer, state, expected) => {
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
  ])(
    'after read-backs at %j seconds, an open cancel is read back again %i seconds after the response',
    async (before, next) => {
      const { scene } = await answered('302');
      const from = scene.clock.monotonic();
      await looks(scene, ...before);
      scene.states.set('a', 'canceled');
      expect(await scene.wait(from + next * SECOND - 1 - scene.clock.monotonic())).toBe('');
      expect(await scene.wait(1)).toBe('ended a confirmed read_canceled');
    },
  );

  it.each([
    ['unknown', 'read_unknown'],
    [undefined, 'read_unreported'],
  ] as const)('an open cancel is given up if the callback state stays unknown: %s', async (state, reason) => {
    const { scene } = await answered('302');
    scene.states.set('a', state);
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', `ended a gave_up ${reason}`]);
  });

  it('an open cancel is given up if it was refused and the callback is still in progress', async () => {
    const { scene } = await answered('400');
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', 'ended a gave_up refused_while_in_progress']);
    expect(await scene.again()).toBe('');
  });

  it('an open cancel is attempted a second time after a walk, but not a third time', async () => {
    const { scene } = await answered('500');
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', '']);
    scene.answers = ['500'];
    expect(await scene.again()).toBe('intent a jobs 2\nanswered a 2 unknown');
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', 'ended a gave_up still_in_progress']);
    expect(await scene.again()).toBe('');
    expect(scene.sent).toEqual(['a', 'a']);
  });

  it('an open cancel stays open if its second attempt was rejected with 401, and a third needs a new evaluation', async () => {
    const { scene } = await answered('500');
    await looks(scene, 0, 5, 15, 60);
    scene.answers = ['401'];
    const opened = 'opened errors (the service refused a cancel with 401)';
    expect(await scene.again()).toBe(`intent a jobs 2\nanswered a 2 denied\n${opened}`);
    await scene.journal().append([{ at: 0, step: 'breaker_reset', breaker: 'errors', by: 'ann', reason: 'r' }]);
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['reset errors', '', '', '']);
    scene.answers = ['500'];
    expect(await scene.again()).toBe('intent a jobs 3\nanswered a 3 unknown');
    expect(await looks(scene, 0, 5, 15, 60)).toEqual(['', '', '', 'ended a gave_up still_in_progress']);
    expect(await scene.again()).toBe('');
    expect(scene.sent).toEqual(['a', 'a', 'a']);
  });

  it('an open cancel is not attempted a second time before its last read-back', async () => {
    const { scene } = await answered('500');
    expect(await scene.wait(0)).toBe('');
    scene.states.set('a', 'unknown');
    await looks(scene, 5, 15);
    expect(await scene.walk('a')).toContain('gave_up read_unknown');
    expect(scene.sent).toEqual(['a']);
  });

  it('an open cancel blocks a later episode of the callback until it is given up', async () => {
    const { scene } = await answered('500');
    expect(await scene.wait(0)).toBe('');
    scene.answers = ['302!'];
    expect(await scene.walk('a#2')).toBe('left a unresolved');
    expect(await looks(scene, 0, 5, 15)).toEqual(['', '', '']);
    expect(await scene.again()).toBe('ended a gave_up not_tracked\nintent a jobs 1\nanswered a 1 accepted');
    expect(await scene.wait(0)).toBe('ended a confirmed read_canceled');
  });

  it('an open cancel is given up if its episode ends after the last read-back', async () => {
    const { scene } = await answered('500');
    await looks(scene, 0, 5, 15, 60);
    expect(await scene.walk('b:idle_for')).toContain('ended a gave_up not_tracked');
    expect(await scene.walk('a#2')).toContain('intent a jobs 1');
  });

  it('an open cancel is given up if its rule is missing after a restart', async () => {
    const { scene } = await answered('500');
    await scene.restart({ rules: [] });
    await scene.walk('a');
    await looks(scene, 0, 5, 15, 60);
    expect(await scene.walk('a')).toBe('');
    expect(await scene.walk('a')).toBe('ended a gave_up not_tracked');
  });

  it('rate-limited and unsent attempts do not count towards the maximum of two attempts', async () => {
    const { scene } = await answered('429');
    scene.answers = ['unsent', '500', '500'];
    await scene.again();
    await scene.again();
    await looks(scene, 0, 5, 15, 60);
    expect(await scene.again()).toContain('intent a jobs 4');
    expect(scene.sent).toHaveLength(4);
  });

  it('an open cancel is read back again a minute after a failed read-back', async () => {
    const { scene } = await answered('302!');
    scene.failing = new UpstreamError('server', 'GET /v2/dlq: 500', { status: 500 });
    expect(await scene.wait(0)).toBe('');
    scene.failing = undefined;
    expect(await scene.wait(MINUTE - 1)).toBe('');
    expect(await scene.wait(1)).toBe('ended a confirmed read_canceled');
  });

  it('an open cancel without a response is read back after a restart and never sent again', async () => {
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
    // The four read-backs did not wait for walks, but the next one waits for the third walk.
    scene.states.set('a', 'canceled');
    await scene.walk('');
    await scene.walk('');
    expect(await scene.walk('')).toBe('ended a confirmed read_canceled unproven');
    expect([scene.sent, await inFlight()]).toEqual([['a'], 0]);
  });
});

it('a repeated decision sends no second cancel until a walk starts after the first cancel', async () => {
  const scene = await createScene(REPORTED);
  await scene.warm();
  scene.answers = ['500'];
  scene.onSend = () => scene.failCommitsAfter(0);
  await expect(scene.walk('a b')).rejects.toThrow('disk full');
  // All read-backs are complete, and each decision fails when it writes the intent of b.
  for (let run = 0; run < 6; run += 1) await expect(scene.wait(30 * SECOND)).rejects.toThrow('disk full');
  scene.failCommitsAfter(undefined);
  scene.onSend = () => undefined;
  expect(await scene.wait(30 * SECOND)).toContain('intent b jobs 1');
  expect(scene.sent).toEqual(['a', 'b']);
  expect(await scene.walk('a')).toContain('intent a jobs 2');
});

describe('blind cancels', () => {
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
  ])('with the response %s, a blind cancel is final', async (answer, expected) => {
    const { scene, result } = await blind(answer);
    expect(result).toBe(`intent a jobs 1\n${expected}`);
    for (let day = 0; day < 3; day += 1) {
      await scene.wait(DAY);
      expect(await scene.walk('a')).toBe('');
    }
    expect(scene.sent).toEqual(['a']);
  });

  it('a refused blind cancel is not repeated within recheckAfter and does not count towards breakers', async () => {
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

  it('a blind cancel is never sent again if the process died before the response was stored', async () => {
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

  it('a blind cancel is not sent if the final check finds a reported state', async () => {
    const scene = await createScene(BLIND);
    await scene.warm();
    expect(await scene.walk('a')).toBe('left a now_in_progress');
    expect(scene.sent).toEqual([]);
  });
});
