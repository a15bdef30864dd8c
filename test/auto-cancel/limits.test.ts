import { describe, expect, it } from 'vitest';
import { actionsLeft } from '../../src/auto-cancel/limits.ts';
import { DAY, HOUR, MINUTE, optionsOf, rule } from '../support/auto-cancel-options.ts';
import { createScene } from '../support/auto-cancel-scene.ts';
import { reasonsIn, sentIn, warmScene } from './warm-scene.ts';

describe('limits', () => {
  it.each([
    ['to all rules', { limits: { perRun: 2, perHour: 99, perDay: 99, spacing: '0s' }, rules: [rule('jobs')] }],
    ['to each rule', { rules: [rule('jobs', { limits: { perRun: 2, perHour: 99 } })] }],
  ])('a limit per walk applies %s', async (_, section) => {
    const scene = await warmScene(section);
    const result = await scene.walk('a b c');
    expect([sentIn(result), reasonsIn(result)]).toEqual([2, ['limit_run']]);
    expect(sentIn(await scene.walk('c'))).toBe(1);
  });

  it.each([
    ['hour', HOUR, 'limit_hour', { limits: { perRun: 9, perHour: 2, perDay: 99, spacing: '0s' } }],
    ['day', DAY, 'limit_day', { limits: { perRun: 9, perHour: 9, perDay: 2, spacing: '0s' } }],
    ['hour of the rule', HOUR, 'limit_hour', {}],
  ])('a limit per %s is computed from the journal and is exact to the millisecond', async (name, ms, reason, more) => {
    const ofRule = name.endsWith('rule') ? { limits: { perRun: 9, perHour: 2 } } : {};
    const section = { ...more, rules: [rule('jobs', ofRule)] };
    const scene = await warmScene(section);
    const result = await scene.walk('a b c');
    expect([sentIn(result), reasonsIn(result)]).toEqual([2, [reason]]);
    const at = scene.clock.now();
    await scene.restart();
    await scene.warm();
    expect(reasonsIn(await scene.walk('c'))).toEqual([reason]);
    await scene.wait(at + ms - MINUTE - 1 - scene.clock.now());
    expect(await scene.walk('c')).toBe('');
    await scene.restart();
    await scene.warm();
    expect(sentIn(await scene.walk('c'))).toBe(1);
  });

  it('a limit counts intents, even if their cancel was not sent', async () => {
    const scene = await warmScene({ rules: [rule('jobs', { limits: { perRun: 9, perHour: 2 } })] });
    scene.answers = ['unsent', '429'];
    const result = await scene.walk('a b c');
    expect([sentIn(result), reasonsIn(result)]).toEqual([2, ['limit_hour']]);
  });

  it('a limit counts plans and cancels separately', async () => {
    const rules = [
      rule('first', { mode: 'plan', limits: { perRun: 9, perHour: 1 } }),
      rule('second', { limits: { perRun: 9, perHour: 1 } }),
    ];
    const scene = await warmScene({ limits: { perRun: 9, perHour: 1, spacing: '0s' }, rules });
    const result = await scene.walk(
      'a:first=stuck,second=no_match b:first=no_match,second=stuck c:first=stuck,second=no_match',
    );
    expect(result).toContain('ended a planned');
    expect(result).toContain('intent b second');
    expect(result).toContain('left c limit_hour');
  });

  it('actionsLeft returns the smallest remainder of all limits, which grows again over time', async () => {
    const options = optionsOf({ limits: { perHour: 3, perDay: 4 } });
    const scene = await warmScene({ rules: [rule('jobs')] });
    const left = () => actionsLeft(options, scene.journal().state, scene.clock.now());
    expect(left()).toBe(3);
    await scene.walk('a b');
    expect(left()).toBe(1);
    await scene.wait(HOUR);
    expect(left()).toBe(2);
    await scene.wait(DAY);
    expect(left()).toBe(3);
  });
});

describe('rule cooldown', () => {
  it('a cancel starts the cooldown of its URL, which survives a restart', async () => {
    const scene = await warmScene({ rules: [rule('jobs', { cooldown: { perUrl: '10m' } })] });
    const result = await scene.walk('a@one b@one c@two');
    expect([scene.sent, reasonsIn(result)]).toEqual([['a', 'c'], ['cooldown']]);
    const at = scene.clock.now();
    await scene.restart();
    await scene.warm();
    await scene.wait(at + 9 * MINUTE - 1 - scene.clock.now());
    expect(await scene.walk('b@one')).toBe('left b cooldown');
    await scene.wait(1 - MINUTE);
    expect(sentIn(await scene.walk('b@one'))).toBe(1);
  });

  it('a rule’s cooldown also starts with a cancel by another rule, or by the same rule under its old name', async () => {
    const cooldown = { perUrl: '10m' };
    const scene = await warmScene({
      rules: [rule('first', { cooldown }), rule('second', { cooldown }), rule('third')],
    });
    const result = await scene.walk(
      'a:first=stuck,second=no_match,third=no_match@one b:first=no_match,second=stuck,third=no_match@one c:first=no_match,second=no_match,third=stuck@one',
    );
    expect([scene.sent, reasonsIn(result)]).toEqual([['a', 'c'], ['cooldown']]);
    await scene.restart({ rules: [rule('renamed', { cooldown })] });
    await scene.warm();
    expect(await scene.walk('b@one')).toBe('left b cooldown');
    await scene.wait(10 * MINUTE);
    expect(sentIn(await scene.walk('b@one'))).toBe(1);
  });

  it('a planned cancel starts no cooldown for a rule that sends cancels', async () => {
    const cooldown = { perUrl: '10m' };
    const scene = await warmScene({ rules: [rule('first', { cooldown, mode: 'plan' }), rule('second', { cooldown })] });
    expect(await scene.walk('a:first=stuck,second=no_match@one b:first=no_match,second=stuck@one')).toBe(
      'ended a planned stuck\nintent b second 1\nanswered b 1 accepted',
    );
  });
});

describe('time windows', () => {
  const deny = [{ from: '2026-06-01T00:30:00Z', to: '2026-06-01T01:00:00Z', reason: 'freeze' }];
  it.each([
    ['denied', { deny }, 29 * MINUTE, 'window_denied'],
    ['denied and allowed', { deny, allow: [{ cron: '* * * * *', for: '1h' }] }, 29 * MINUTE, 'window_denied'],
    ['not allowed', { allow: [{ cron: '0 3 * * *', for: '1h' }] }, 29 * MINUTE, 'window_closed'],
  ])('time windows prevent a cancel: %s', async (_, windows, ms, reason) => {
    const scene = await createScene({ rules: [rule('jobs', { windows })] });
    await scene.warm();
    await scene.wait(ms - 3 * MINUTE);
    expect(reasonsIn(await scene.walk('a'))).toEqual([reason]);
    expect(scene.sent).toEqual([]);
  });

  it('time windows include their start and exclude their end', async () => {
    const scene = await createScene({ rules: [rule('jobs', { windows: { deny } })] });
    await scene.warm();
    await scene.wait(26 * MINUTE - 1);
    expect(sentIn(await scene.walk('a'))).toBe(1);
    await scene.wait(29 * MINUTE);
    expect(reasonsIn(await scene.walk('b'))).toEqual(['window_denied']);
    await scene.wait(1 - MINUTE);
    expect(sentIn(await scene.walk('b'))).toBe(1);
    expect(new Date(scene.clock.now()).toISOString()).toBe('2026-06-01T01:00:00.000Z');
  });
});
