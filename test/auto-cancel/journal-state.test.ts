import { describe, expect, it } from 'vitest';
import { emptyJournal, endOf, foldEntry, isPlanned, prune } from '../../src/auto-cancel/journal-state.ts';
import { line, linesOf, summaryOf, TARGET } from './journal-lines.ts';

describe('folding journal lines', () => {
  it.each([
    ['marked 30', 'grace 30'],
    ['marked 30, cleared', ''],
    ['marked 30, awaiting_approval 40', 'grace 30, approval 40'],
    ['awaiting_approval 40, approved ann', 'approval 40, approved by ann'],
    ['awaiting_approval 40, approved ann, cleared', ''],
    ['awaiting_approval 40, approved ann, cleared, awaiting_approval 50', 'approval 50'],
    ['awaiting_approval 40, approved ann, awaiting_approval 50', 'approval 50'],
    ['intent 1', '#1@1, open'],
    ['intent 1, answered 1 accepted', '#1@1 accepted, open'],
    ['intent 1, answered 1 accepted, ended confirmed', '#1@1 accepted, confirmed'],
    ['intent 1, answered 1 unknown, intent 2, answered 2 refused', '#1@1 unknown, #2@3 refused, open'],
    ['marked 30, ended planned', 'planned'],
    ['ended planned, intent 1', 'planned, #1@2, open'],
    ['intent 1, answered 1 limited, ended expired', '#1@1 limited'],
    ['intent 1 blind, answered 1 refused, ended not_in_progress', '#1@1 refused'],
    ['intent 1 blind, ended accepted_unverified', '#1@1, accepted_unverified'],
    ['awaiting_approval 40, approved ann, intent 1, ended expired', '#1@3'],
    // Lines that refer to an unknown action.
    ['cleared', 'nothing'],
    ['approved ann', 'nothing'],
    ['answered 1 accepted', 'nothing'],
  ])('lines of one action fold to its state: %s → %s', (text, expected) => {
    const state = emptyJournal();
    for (const each of linesOf(text)) foldEntry(state, each);
    expect(summaryOf(state.actions.get('x'))).toBe(expected);
  });

  it.each([
    [
      'intent 1, answered 1 unknown, intent 2, answered 2 denied, breaker_reset lost_races',
      'errors 2,4 races  uses 1,3 plans ',
    ],
    ['intent 1, answered 1 unknown, breaker_reset errors', 'errors  races  uses 1 plans '],
    ['intent 1, answered 1 accepted, ended confirmed', 'errors  races false uses 1 plans '],
    ['intent 1, answered 1 refused, ended superseded', 'errors  races true uses 1 plans '],
    ['intent 1, ended superseded, breaker_reset lost_races', 'errors  races  uses 1 plans '],
    ['intent 1 blind, ended superseded', 'errors  races  uses 1 plans '],
    ['intent 1, ended gone', 'errors  races  uses 1 plans '],
    ['ended planned', 'errors  races  uses  plans 1'],
  ])('lines of an account fold to errors, races, uses and plans: %s → %s', (text, expected) => {
    const state = emptyJournal();
    for (const each of linesOf(text)) foldEntry(state, each);
    const times = (isPlan: boolean) => state.uses.filter(use => use.isPlan === isPlan).map(({ at }) => at);
    expect(`errors ${state.errors} races ${state.races} uses ${times(false)} plans ${times(true)}`).toBe(expected);
    expect(state.uses.every(({ rule, url }) => rule === 'jobs' && url === TARGET.workflowUrl)).toBe(true);
  });

  it('a fold keeps the latest time even if a later line has an earlier time', () => {
    const state = emptyJournal();
    for (const at of [5000, 2000]) foldEntry(state, line('resumed', at));
    expect(state.lastAt).toBe(5000);
  });

  it('a fold opens and resets breakers, and starts and ends a pause', () => {
    const state = emptyJournal();
    for (const each of linesOf('breaker_opened errors, breaker_opened candidates, paused, breaker_reset errors'))
      foldEntry(state, each);
    expect([...state.breakers]).toEqual([['candidates', { at: 2, reason: 'r' }]]);
    expect(state.paused).toEqual({ at: 3, by: 'ann', reason: 'r' });
    foldEntry(state, line('resumed', 5));
    expect(state.paused).toBeUndefined();
  });

  it('a fold counts outcomes by rule and mode', () => {
    const state = emptyJournal();
    for (const each of linesOf('ended gone, ended gone, ended confirmed')) foldEntry(state, each);
    expect([...state.outcomes.values()].map(({ outcome, count }) => `${outcome} ${count}`)).toEqual([
      'gone 2',
      'confirmed 1',
    ]);
  });
});

describe('pruning', () => {
  const DAY = 24 * 3_600_000;
  const folded = (text: string) => {
    const state = emptyJournal();
    for (const each of linesOf(text)) foldEntry(state, each);
    return state;
  };

  it.each([
    ['intent 1', 'x open'],
    ['intent 1, answered 1 unknown', 'x open'],
    ['marked 30', 'x live'],
    ['awaiting_approval 40, approved ann', 'x live'],
    ['marked 30, cleared', ''],
    ['ended planned', 'x planned'],
    ['ended planned, marked 30', 'x live planned'],
    ['intent 1, answered 1 accepted, ended confirmed', 'x confirmed, 1 attempts, sent'],
    ['intent 1, answered 1 unknown, intent 2, ended gave_up', 'x gave_up, 2 attempts, sent'],
    ['intent 1, answered 1 not_sent, ended expired', ''],
    ['intent 1, answered 1 not_sent, ended expired, ended planned', 'x planned, 1 attempts'],
    ['intent 1 blind, answered 1 refused, ended not_in_progress', 'sent'],
  ])('pruning after a year reduces the lines %s to: %s', (text, expected) => {
    const state = folded(text);
    prune(state, 367 * DAY);
    const action = state.actions.get('x');
    const closed = state.closed.get('x');
    const words = [
      action && `x ${action.isOpen ? 'open' : 'live'}${isPlanned(state, 'x') ? ' planned' : ''}`,
      closed && !action && `x ${endOf(state, 'x') ?? (isPlanned(state, 'x') ? 'planned' : '')}`,
      closed && closed.attempts > 0 && `${closed.attempts} attempts`,
      [...state.senders.values()].includes('x') && 'sent',
    ];
    expect(words.filter(Boolean).join(', ')).toBe(expected);
  });

  it('pruning keeps the attempts of a blind cancel for a year, and its outcome forever', () => {
    const state = folded('intent 1 blind, answered 1 refused, ended not_in_progress');
    prune(state, 366 * DAY);
    expect(summaryOf(state.actions.get('x'))).toBe('#1@1 refused');
    prune(state, 1000 * DAY);
    expect([state.actions.size, [...state.blindEnds.keys()]]).toEqual([0, ['d']]);
  });

  it('pruning keeps the plans and cancels of the last day and, for a year, the latest plan and cancel of each URL', () => {
    const state = emptyJournal();
    const use = (at: number, url: string, isPlan = false) => state.uses.push({ at, rule: 'r', url, isPlan });
    use(1, 'a');
    use(3, 'b');
    use(2, 'b');
    use(4, 'a', true);
    use(5, 'a');
    use(DAY, 'a');
    use(DAY + 1, 'a');
    const kept = () =>
      state.uses.map(({ at, url }) => `${at === DAY ? 'day' : at > DAY ? 'later' : at}${url}`).join(' ');
    prune(state, DAY + 5);
    expect(kept()).toBe('3b 4a daya latera');
    prune(state, 366 * DAY + 3);
    expect(kept()).toBe('4a latera');
    prune(state, 367 * DAY + 1);
    expect(kept()).toBe('');
  });

  it('the state is the same with or without earlier pruning', () => {
    const text = 'ended planned, marked 30, intent 1, answered 1 unknown, intent 2, ended gave_up, paused';
    const [once, often] = [emptyJournal(), emptyJournal()];
    for (const each of linesOf(text)) {
      foldEntry(once, each);
      foldEntry(often, each);
      prune(often, often.lastAt);
    }
    prune(once, once.lastAt);
    expect(often).toEqual(once);
    expect(once.actions.size).toBe(0);
  });
});
