import { describe, expect, it } from 'vitest';
import { BRAKE } from '../../src/auto-cancel/brake.ts';
import { emptyJournal, foldEntry, type JournalState } from '../../src/auto-cancel/journal-state.ts';
import { breakerToOpen, candidateExcess } from '../../src/auto-cancel/limits.ts';
import { ACCOUNT_STAGES, type AccountContext } from '../../src/auto-cancel/stages.ts';
import type { JournalEntry } from '../../src/model/journal.ts';
import { DAY, HOUR, MINUTE, optionsOf, rule } from '../support/auto-cancel-options.ts';
import { reasonsIn, sentIn, warmScene } from './warm-scene.ts';

const NOW = Date.UTC(2026, 5, 1);

/** Returns why cancels are suspended for an account. */
const accountReason = (moment: AccountContext) =>
  ACCOUNT_STAGES.map(stage => stage.check(moment)).find(reason => reason !== undefined);

/** Returns a walk of `count` callbacks in the scene's notation. */
const many = (count: number, word = '', from = 0) =>
  Array.from({ length: count }, (_, index) => `i${from + index}${word}`).join(' ');

describe('suspended cancels', () => {
  const none = { isStopped: false, alerts: new Map<string, 'firing' | 'unknown'>() };
  const at = NOW;
  const brakeOf = (options: ReturnType<typeof optionsOf>, journal: JournalState, { isStopped, alerts }: typeof none) =>
    accountReason({
      options,
      journal,
      walk: {
        facts: { at, walks: 3, maxGap: 0, sightings: [], isPartial: false, reportsStates: true },
        isFresh: true,
        eventsAreFresh: true,
      },
      walkAt: undefined,
      walksNeeded: 3,
      clockSkew: 0,
      isStopped,
      alerts,
      brake: { pause: undefined, isKnown: true },
      lease: undefined,
      time: { wall: at, elapsed: at, latest: at },
    });
  const lines: Record<string, JournalEntry> = {
    breaker_candidates: { at, step: 'breaker_opened', breaker: 'candidates', reason: 'r' },
    breaker_errors: { at, step: 'breaker_opened', breaker: 'errors', reason: 'r' },
    breaker_lost_races: { at, step: 'breaker_opened', breaker: 'lost_races', reason: 'r' },
  };

  it.each(Object.entries(lines))('cancels are suspended by %s until the breaker is reset', (word, line) => {
    const state = emptyJournal();
    expect(brakeOf(optionsOf({}), state, none)).toBeUndefined();
    foldEntry(state, line);
    expect(brakeOf(optionsOf({}), state, none)).toBe(word);
    foldEntry(state, { ...line, step: 'breaker_reset', by: 'ann' } as JournalEntry);
    expect(brakeOf(optionsOf({}), state, none)).toBeUndefined();
  });

  it('cancels are suspended by the stop file, and by configured alerts that are firing or unknown', () => {
    const options = optionsOf({ pauseWhileAlerts: ['Down'] });
    expect(brakeOf(options, emptyJournal(), { ...none, isStopped: true })).toBe('stop_file');
    expect(brakeOf(options, emptyJournal(), { ...none, alerts: new Map([['Down', 'firing']]) })).toBe('alert_firing');
    expect(brakeOf(options, emptyJournal(), { ...none, alerts: new Map([['Down', 'unknown']]) })).toBe('alert_unknown');
    expect(brakeOf(options, emptyJournal(), { ...none, alerts: new Map([['Other', 'firing']]) })).toBeUndefined();
  });

  it.each(['paused', 'stop_file', 'alert_firing', 'alert_unknown'])(
    'cancels are not sent while suspended, even after a restart: %s',
    async brake => {
      const scene = await warmScene({ pauseWhileAlerts: ['Down'], rules: [rule('jobs')] });
      if (brake === 'paused') await scene.pause();
      if (brake === 'stop_file') scene.isStopped = true;
      if (brake === 'alert_firing') scene.firing.add('Down');
      if (brake === 'alert_unknown') scene.unknownAlerts.add('Down');
      expect(reasonsIn(await scene.walk('a'))).toEqual([brake]);
      expect(reasonsIn(await scene.again())).toEqual([]);
      await scene.restart();
      await scene.warm();
      expect(reasonsIn(await scene.walk('a'))).toEqual([brake]);
      expect([scene.sent, scene.explain('a')?.held]).toEqual([[], brake]);
    },
  );

  it.each(['paused', 'stop_file'])(
    'cancels are not sent if they are suspended between intent and request: %s',
    async brake => {
      const scene = await warmScene({ rules: [rule('jobs')] });
      const journal = scene.journal();
      const { append } = journal;
      Object.assign(journal, {
        async append(...entries: Parameters<typeof append>) {
          await append(...entries);
          if (brake === 'stop_file') scene.isStopped = true;
          // The agent rereads the brake before the request.
          else await scene.store.commit('', [{ key: BRAKE, value: 'unreadable' }]);
        },
      });
      expect(await scene.walk('a')).toBe('intent a jobs 1\nanswered a 1 not_sent\nended a expired answer_not_sent');
      expect(scene.sent).toEqual([]);
      const answered = (await scene.lines()).find(({ step }) => step === 'answered');
      expect(answered).toMatchObject({ answer: { why: brake } });
    },
  );
});

describe('candidate breaker', () => {
  it.each([
    [25, 1000, undefined],
    [26, 1000, '26 callbacks seem stuck, more than 25'],
    [3, 10, undefined],
    [4, 10, '4 of 10 callbacks seem stuck, more than 30 %'],
    [9, 9, undefined],
    [6, 20, undefined],
    [7, 20, '7 of 20 callbacks seem stuck, more than 30 %'],
  ])(
    'if %i of %i callbacks seem stuck, the reason to open the candidate breaker is: %s',
    (candidates, population, expected) => {
      const { breaker } = optionsOf({ breaker: {} });
      expect(candidateExcess(breaker.candidates, candidates, population)).toBe(expected);
    },
  );

  it('the candidate breaker suspends all cancels until an operator resets it, even after a restart', async () => {
    const section = { breaker: { candidates: { max: 3, percent: 100 } }, rules: [rule('jobs')] };
    const scene = await warmScene(section);
    const result = await scene.walk(many(4));
    expect(result.split('\n')[0]).toBe('opened candidates (4 callbacks seem stuck, more than 3)');
    expect(reasonsIn(result)).toEqual(['breaker_candidates']);
    expect(await scene.walk(many(1))).toBe('');
    await scene.restart();
    await scene.warm();
    expect(await scene.walk(many(1))).toBe('left i0 breaker_candidates');
    await scene.journal().append([{ at: 0, step: 'breaker_reset', breaker: 'candidates', by: 'ann', reason: 'r' }]);
    expect(await scene.walk(many(1))).toContain('intent i0');
    expect(scene.sent).toEqual(['i0']);
  });

  it('cancelled callbacks that are still listed count towards the population of the candidate breaker, but not as candidates', async () => {
    const section = { breaker: { candidates: { max: 99, percent: 30, minPopulation: 10 } }, rules: [rule('jobs')] };
    const scene = await warmScene(section);
    const healthy = many(7, ':idle_for', 100);
    expect(sentIn(await scene.walk(`${many(3)} ${healthy}`))).toBe(3);
    await scene.wait(0);
    // The three cancelled callbacks are still listed, and three more are stuck: 3 of 13 callbacks are candidates.
    for (const id of ['i0', 'i1', 'i2']) scene.states.delete(id);
    expect(sentIn(await scene.walk(`${many(6)} ${healthy}`))).toBe(3);
    await scene.wait(0);
    // Now 4 of 13 callbacks are candidates.
    const result = await scene.walk(`${many(4, '', 50)} ${many(9, ':idle_for', 100)}`);
    expect(result).toContain('opened candidates (4 of 13 callbacks seem stuck, more than 30 %)');
  });

  const FEW = { candidates: { max: 3, percent: 100 } };

  it.each([
    ['all rules plan', { rules: [rule('jobs', { mode: 'plan' })] }],
    ['the global mode is plan', { mode: 'plan', rules: [rule('jobs')] }],
    ['all rules have expired', { rules: [rule('jobs', { expires: '2026-01-01' })] }],
  ])('the candidate breaker stays closed and callbacks are planned while %s', async (_, section) => {
    const scene = await warmScene({ breaker: FEW, ...section });
    const result = await scene.walk(many(4));
    expect(result).not.toContain('opened');
    expect(result.match(/planned stuck/g)).toHaveLength(4);
    const wouldOpen = '4 callbacks seem stuck, more than 3';
    expect(scene.wouldOpen()).toBe(wouldOpen);
    await scene.walk(many(4));
    expect(scene.wouldOpen()).toBe(wouldOpen);
    await scene.walk(many(3));
    expect(scene.wouldOpen()).toBeUndefined();
  });

  it.each(['enforce', 'approve'])(
    'planned callbacks count as candidates before the first cancel once their rule has mode %s',
    async mode => {
      const scene = await warmScene({ breaker: FEW, rules: [rule('jobs', { mode: 'plan' })] });
      await scene.walk(many(4));
      await scene.restart({ breaker: FEW, rules: [rule('jobs', { mode })] });
      await scene.warm();
      expect(await scene.walk(many(4))).toContain('opened candidates (4 callbacks seem stuck, more than 3)');
      expect(scene.sent).toEqual([]);
    },
  );

  it('callbacks of a rule in plan mode open the candidate breaker if another rule of the account may act', async () => {
    const rules = [rule('jobs'), rule('plans', { mode: 'plan' })];
    const scene = await warmScene({ breaker: FEW, rules });
    const planned = many(3, ':jobs=no_match,plans=stuck');
    const result = await scene.walk(`${planned} a:jobs=stuck,plans=no_match`);
    expect(result).toContain('opened candidates (4 callbacks seem stuck, more than 3)');
    expect(scene.sent).toEqual([]);
  });

  it('the candidate breaker is not opened by a partial walk', async () => {
    const scene = await warmScene({ breaker: { candidates: { max: 3 } }, rules: [rule('jobs')] });
    scene.isPartial = true;
    await scene.walk(many(4));
    scene.isPartial = false;
    expect(sentIn(await scene.walk(many(3)))).toBe(3);
  });
});

describe('error breaker', () => {
  const { breaker } = optionsOf({ breaker: {} });
  const TARGET = { account: 'a', id: 'i', episode: 'e' } as never;

  function stateWith(...ago: number[]) {
    const state = emptyJournal();
    for (const [index, each] of ago.entries()) {
      const action = `x${index}`;
      const at = NOW - each;
      const intent = {
        at,
        action,
        step: 'intent',
        attempt: 1,
        rule: 'jobs',
        mode: 'enforce',
        blind: false,
        target: TARGET,
        evidence: [],
        sendBy: at,
        policy: 'p',
      } as const;
      foldEntry(state, intent);
      foldEntry(state, { at, action, step: 'answered', attempt: 1, answer: { kind: 'unknown', status: 500 } });
    }
    return state;
  }

  it.each([
    ['two', [0, 0], undefined],
    ['three', [0, 0, 0], 'errors'],
    ['three, the first just under 15 minutes ago', [15 * MINUTE - 1, 0, 0], 'errors'],
    ['three, the first 15 minutes ago', [15 * MINUTE, 0, 0], undefined],
    ['three, recorded while the clock was ahead', [-HOUR, -HOUR, -HOUR], 'errors'],
  ])('after failed cancels (%s; ages %j ms), the breaker to open is: %s', (_, ago, expected) =>
    expect(breakerToOpen(breaker, stateWith(...ago), NOW)?.breaker).toBe(expected),
  );

  it('the error breaker stops a run and stays open after a restart; a reset discards the counted errors', async () => {
    const section = { breaker: { errors: { max: 2 } }, rules: [rule('jobs')] };
    const scene = await warmScene(section);
    scene.answers = ['500', 'timeout'];
    const result = await scene.walk('a b c');
    expect(result).toContain('opened errors (2 cancels failed within 15 minutes)\nleft c breaker_errors');
    expect(scene.sent).toEqual(['a', 'b']);
    await scene.restart();
    await scene.wait(DAY);
    await scene.warm();
    expect(await scene.walk('c')).toBe('left c breaker_errors');
    await scene.journal().append([{ at: 0, step: 'breaker_reset', breaker: 'errors', by: 'ann', reason: 'r' }]);
    expect(await scene.walk('c')).toContain('intent c');
    expect(scene.sent).toEqual(['a', 'b', 'c']);
  });

  it('the error breaker opens immediately when the service rejects the token', async () => {
    const scene = await warmScene({ rules: [rule('jobs')] });
    scene.answers = ['401'];
    expect(await scene.walk('a b')).toBe(
      'intent a jobs 1\nanswered a 1 denied\nended a expired answer_denied\nopened errors (the service refused a cancel with 401)\nleft b breaker_errors',
    );
    expect(
      scene.log.lines.filter(
        ({ level, message }) => level === 'error' && message.startsWith('auto-cancel breaker opened'),
      ),
    ).toHaveLength(1);
  });

  it.each(['429', '404', '400', 'unsent', '302!'])('the error breaker does not count the response %s', async answer => {
    const scene = await warmScene({ breaker: { errors: { max: 1 } }, rules: [rule('jobs')] });
    scene.answers = [answer];
    expect(await scene.walk('a')).not.toContain('opened');
  });

  it('the error breaker cannot be configured with a limit of 0', () =>
    expect(() => optionsOf({ breaker: { errors: { max: 0 } } })).toThrow());
});

describe('lost-race breaker', () => {
  const state = (races: string, percent = 50) => {
    const folded = emptyJournal();
    folded.races.push(...[...races].map(race => race === 'l'));
    return breakerToOpen(optionsOf({ breaker: { lostRaces: { percent, ofLast: 10 } } }).breaker, folded, NOW)?.breaker;
  };
  it.each([
    ['', undefined],
    ['llll', undefined],
    ['lllll', 'lost_races'],
    ['wwwwwwllll', undefined],
    ['wwwwwlllll', 'lost_races'],
    // The first of these eleven races is no longer counted.
    ['lwwwwwwllll', undefined],
    ['lllllwwwwww', undefined],
  ])('after lost (l) and won (w) races %j, the breaker to open is: %s', (races, expected) =>
    expect(state(races)).toBe(expected),
  );

  it('the lost-race breaker opens at the first lost race if the percentage is 0', () => {
    expect([state('', 0), state('wwww', 0), state('wl', 0)]).toEqual([undefined, undefined, 'lost_races']);
  });

  it('the lost-race breaker opens before the next cancel if the previous callback ended by itself', async () => {
    const section = { breaker: { lostRaces: { percent: 10, ofLast: 10 } }, rules: [rule('jobs')] };
    const scene = await warmScene(section);
    scene.answers = ['400'];
    scene.onSend = id => scene.states.set(id, 'success');
    await scene.walk('a');
    expect(await scene.wait(0)).toBe('ended a superseded read_success');
    scene.onSend = () => undefined;
    expect(await scene.walk('b')).toBe(
      'opened lost_races (1 of the last 10 cancels came too late: the callbacks were not stuck)\nleft b breaker_lost_races',
    );
    await scene.restart();
    await scene.warm();
    expect(await scene.walk('b')).toBe('left b breaker_lost_races');
    await scene.journal().append([{ at: 0, step: 'breaker_reset', breaker: 'lost_races', by: 'ann', reason: 'r' }]);
    expect(await scene.walk('b')).toContain('intent b');
  });
});
