import { describe, expect, it, vi } from 'vitest';
import { newestLines, openJournal, readJournal } from '../../src/auto-cancel/journal.ts';
import { type Action, emptyJournal, endOf, foldEntry, isPlanned, prune } from '../../src/auto-cancel/journal-state.ts';
import type { JournalEntry, JournalTarget } from '../../src/model/journal.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';

const TARGET: JournalTarget = {
  account: 'production',
  id: 'd',
  dlqId: 'd',
  messageId: 'm',
  workflowRunId: undefined,
  url: 'https://u.example.com/',
  workflowUrl: 'https://w.example.com/',
  responseStatus: 500,
  episode: 'e',
};
const about = { action: 'x', rule: 'jobs', target: TARGET, evidence: [] };

/** A line from words: `marked 30`, `intent 1`, `intent 2 blind`, `answered 1 unknown`, `ended confirmed`. `at`: its number in the journal. */
function line(words: string, at: number): JournalEntry {
  const [step, one = '', two = ''] = words.split(' ');
  switch (step) {
    case 'marked':
    case 'awaiting_approval':
      return { at, ...about, step, mode: 'approve', policy: 'p', until: Number(one) };
    case 'cleared':
      return { at, action: 'x', step, reason: 'r' };
    case 'approved':
      return { at, action: 'x', step, by: one };
    case 'intent':
      return {
        at,
        ...about,
        step,
        attempt: Number(one),
        mode: 'enforce',
        blind: two === 'blind',
        sendBy: at,
        policy: 'p',
      };
    case 'answered':
      return { at, action: 'x', step, attempt: Number(one), answer: { kind: two, status: 500 } as never };
    case 'ended':
      return { at, ...about, step, outcome: one as never, mode: 'enforce', reason: 'r' };
    case 'paused':
    case 'resumed':
      return { at, step, by: 'ann', reason: 'r' };
    case 'breaker_opened':
      return { at, step, breaker: one as never, reason: 'r' };
    default:
      return { at, step: 'breaker_reset', breaker: one as never, by: 'ann', reason: 'r' };
  }
}

const linesOf = (text: string) => text.split(', ').map((words, index) => line(words, index + 1));

/** What is remarkable of an action, as words. */
function told(action: Action | undefined): string {
  if (!action) return 'nothing';
  const { graceUntil, approvalUntil, approvedBy, isPlanned, attempts, isOpen, ended } = action;
  return [
    graceUntil && `grace ${graceUntil}`,
    approvalUntil && `approval ${approvalUntil}`,
    approvedBy && `approved by ${approvedBy}`,
    isPlanned && 'planned',
    ...attempts.map(
      ({ number, at, answer, answeredAt }) => `#${number}@${at}${answer ? ` ${answer.kind}@${answeredAt}` : ''}`,
    ),
    isOpen && 'open',
    ended,
  ]
    .filter(Boolean)
    .join(', ');
}

describe('lines folded', () => {
  it.each([
    ['marked 30', 'grace 30'],
    ['marked 30, cleared', ''],
    ['marked 30, awaiting_approval 40', 'grace 30, approval 40'],
    ['awaiting_approval 40, approved ann', 'approval 40, approved by ann'],
    ['awaiting_approval 40, approved ann, cleared', ''],
    ['awaiting_approval 40, approved ann, cleared, awaiting_approval 50', 'approval 50'],
    ['awaiting_approval 40, approved ann, awaiting_approval 50', 'approval 50'],
    ['intent 1', '#1@1, open'],
    ['intent 1, answered 1 accepted', '#1@1 accepted@2, open'],
    ['intent 1, answered 1 accepted, ended confirmed', '#1@1 accepted@2, confirmed'],
    ['intent 1, answered 1 unknown, intent 2, answered 2 refused', '#1@1 unknown@2, #2@3 refused@4, open'],
    ['marked 30, ended planned', 'planned'],
    ['ended planned, intent 1', 'planned, #1@2, open'],
    ['intent 1, answered 1 limited, ended expired', '#1@1 limited@2'],
    ['intent 1 blind, answered 1 refused, ended not_in_progress', '#1@1 refused@2'],
    ['intent 1 blind, ended accepted_unverified', '#1@1, accepted_unverified'],
    ['awaiting_approval 40, approved ann, intent 1, ended expired', '#1@3'],
    // About nothing that was ever begun.
    ['cleared', 'nothing'],
    ['approved ann', 'nothing'],
    ['answered 1 accepted', 'nothing'],
  ])('%s: %s', (text, expected) => {
    const state = emptyJournal();
    for (const each of linesOf(text)) foldEntry(state, each);
    expect(told(state.actions.get('x'))).toBe(expected);
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
  ])('%s: %s', (text, expected) => {
    const state = emptyJournal();
    for (const each of linesOf(text)) foldEntry(state, each);
    const times = (isPlan: boolean) => state.uses.filter(use => use.isPlan === isPlan).map(({ at }) => at);
    expect(`errors ${state.errors} races ${state.races} uses ${times(false)} plans ${times(true)}`).toBe(expected);
    expect(state.uses.every(({ rule, url }) => rule === 'jobs' && url === TARGET.workflowUrl)).toBe(true);
  });

  it('tell the latest time, also where a command came after the clock was set back', () => {
    const state = emptyJournal();
    for (const at of [5000, 2000]) foldEntry(state, line('resumed', at));
    expect(state.lastAt).toBe(5000);
  });

  it('open breakers and a pause, and end them', () => {
    const state = emptyJournal();
    for (const each of linesOf('breaker_opened errors, breaker_opened candidates, paused, breaker_reset errors'))
      foldEntry(state, each);
    expect([...state.breakers]).toEqual([['candidates', { at: 2, reason: 'r' }]]);
    expect(state.paused).toEqual({ at: 3, by: 'ann', reason: 'r' });
    foldEntry(state, line('resumed', 5));
    expect(state.paused).toBeUndefined();
  });

  it('count outcomes by rule and mode, since shortly before the first of each', () => {
    const state = emptyJournal();
    for (const each of linesOf('ended gone, ended gone, ended confirmed')) foldEntry(state, each);
    expect([...state.outcomes.values()].map(({ outcome, count, since }) => `${outcome} ${count} ${since}`)).toEqual([
      'gone 2 -4999',
      'confirmed 1 -4997',
    ]);
  });

  it('remember no more races than are ever asked for', () => {
    const state = emptyJournal();
    for (let at = 0; at < 1500; at += 1) foldEntry(state, line(at < 500 ? 'ended superseded' : 'ended confirmed', at));
    expect([state.races.length, state.races.includes(true)]).toEqual([1000, false]);
  });
});

describe('a pruned state', () => {
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
  ])('keeps of %s after a year: %s', (text, expected) => {
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

  it('keeps attempts without an end for a year, and the outcome of blind cancels for ever', () => {
    const state = folded('intent 1 blind, answered 1 refused, ended not_in_progress');
    prune(state, 366 * DAY);
    expect(told(state.actions.get('x'))).toBe('#1@1 refused@2');
    prune(state, 1000 * DAY);
    expect([state.actions.size, [...state.blindEnds.keys()]]).toEqual([0, ['d']]);
  });

  it('keeps uses of the last day, and the latest of each URL for a year', () => {
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

  it('is the same however often it was pruned before', () => {
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

describe('a journal', () => {
  it('says after a restart what it said before, in the order in which it was written, whatever the clock did', async () => {
    const store = createMemoryStore();
    const journal = await openJournal(store, 'production');
    const lines = linesOf(
      'marked 30, intent 1, answered 1 unknown, intent 2, ended gave_up, paused, breaker_opened errors',
    );
    const backwards = lines.map((each, index) => ({ ...each, at: 100 - index }));
    await Promise.all(backwards.map(each => journal.append([each])));
    await journal.append(linesOf('ended planned, resumed'));
    const again = await openJournal(store, 'production');
    expect(again.state).toEqual(journal.state);
    expect((await readJournal(store, 'production')).map(({ step }) => step)).toEqual([
      ...lines.map(({ step }) => step),
      'ended',
      'resumed',
    ]);
    await again.append(linesOf('paused'));
    expect(await readJournal(store, 'production')).toHaveLength(10);
    expect(await readJournal(store, 'other')).toEqual([]);
  });

  it('is as it was when lines can not be written, and goes on', async () => {
    const memory = createMemoryStore();
    let fails = false;
    const store = {
      ...memory,
      commit: (...args: Parameters<typeof memory.commit>) =>
        fails ? Promise.reject(new Error('disk full')) : memory.commit(...args),
    };
    const send = vi.fn();
    const posting = { changes: () => [{ key: 'beside', value: '1' }], send };
    const journal = await openJournal(store, 'production', ([line]) => (line?.step === 'marked' ? [] : [posting]));
    await journal.append(linesOf('marked 30'));
    fails = true;
    await expect(journal.append(linesOf('intent 1, answered 1 accepted'))).rejects.toThrow('disk full');
    expect(told(journal.state.actions.get('x'))).toBe('grace 30');
    fails = false;
    expect([...(await store.scan('production', 'beside')), ...send.mock.calls]).toEqual([]);
    await journal.append(linesOf('cleared'));
    expect((await readJournal(store, 'production')).map(({ step }) => step)).toEqual(['marked', 'cleared']);
    expect([...(await store.scan('production', 'beside'))]).toEqual([['beside', '1']]);
    expect(send).toHaveBeenCalledTimes(1);
  });

  describe('whose commit rejects although its lines were written', () => {
    /** A store whose next commits end as `outcomes` has them. `late`: written only once the journal has read the lines back. */
    async function openUnsure() {
      const memory = createMemoryStore();
      const outcomes: ('written' | 'late' | 'failed')[] = [];
      let delayed = async () => {};
      let isReadable = true;
      const store: Store = {
        ...memory,
        async scan(...args) {
          if (!isReadable) throw new Error('no connection');
          const rows = await memory.scan(...args);
          await delayed();
          delayed = async () => {};
          return rows;
        },
        async commit(...args) {
          const outcome = outcomes.shift();
          if (outcome === 'late') delayed = () => memory.commit(...args);
          if (outcome === undefined || outcome === 'written') await memory.commit(...args);
          if (outcome !== undefined) throw new Error('connection lost');
        },
      };
      const send = vi.fn();
      const posting = { changes: () => [], send };
      const journal = await openJournal(store, 'production', ([line]) => (line?.step === 'intent' ? [posting] : []));
      await journal.append(linesOf('marked 30'));
      const steps = async () => (await readJournal(memory, 'production')).map(({ step }) => step);
      const reopened = async () => (await openJournal(memory, 'production')).state;
      return { journal, outcomes, send, steps, reopened, setReadable: (value: boolean) => (isReadable = value) };
    }

    it('adds them to its state before the next lines, which get the next numbers', async () => {
      const { journal, outcomes, send, steps, reopened } = await openUnsure();
      outcomes.push('written');
      await expect(journal.append(linesOf('intent 1, answered 1 unknown'))).rejects.toThrow('connection lost');
      expect(told(journal.state.actions.get('x'))).toBe('grace 30');
      await journal.append(linesOf('paused'));
      expect(await steps()).toEqual(['marked', 'intent', 'answered', 'paused']);
      expect(told(journal.state.actions.get('x'))).toBe('grace 30, #1@1 unknown@2, open');
      expect(send).toHaveBeenCalledTimes(1);
      expect(await reopened()).toEqual(journal.state);
    });

    it('adds them without another append when it is asked to confirm', async () => {
      const { journal, outcomes } = await openUnsure();
      outcomes.push('written');
      await expect(journal.append(linesOf('intent 1, answered 1 unknown'))).rejects.toThrow('connection lost');
      await journal.confirm();
      await journal.confirm();
      expect(told(journal.state.actions.get('x'))).toBe('grace 30, #1@1 unknown@2, open');
    });

    it('appends nothing while they can not be read back', async () => {
      const { journal, outcomes, steps, setReadable } = await openUnsure();
      outcomes.push('written');
      await expect(journal.append(linesOf('intent 1, answered 1 unknown'))).rejects.toThrow('connection lost');
      setReadable(false);
      await expect(journal.append(linesOf('paused'))).rejects.toThrow('no connection');
      await expect(journal.confirm()).rejects.toThrow('no connection');
      expect(await steps()).toEqual(['marked', 'intent', 'answered']);
      setReadable(true);
      await journal.append(linesOf('resumed'));
      expect(await steps()).toEqual(['marked', 'intent', 'answered', 'resumed']);
    });

    it.each(['failed', 'late'] as const)('replaces all of them when the commit was %s at the read', async outcome => {
      const { journal, outcomes, send, steps, reopened } = await openUnsure();
      outcomes.push(outcome);
      await expect(journal.append(linesOf('intent 1, answered 1 unknown'))).rejects.toThrow('connection lost');
      await journal.append(linesOf('paused'));
      expect(await steps()).toEqual(['marked', 'paused']);
      expect(told(journal.state.actions.get('x'))).toBe('grace 30');
      expect(send).not.toHaveBeenCalled();
      expect(await reopened()).toEqual(journal.state);
    });

    it('leaves no line of an earlier failed commit when a later one has fewer lines', async () => {
      const { journal, outcomes, steps, reopened } = await openUnsure();
      outcomes.push('late', 'failed');
      await expect(journal.append(linesOf('intent 1, answered 1 unknown, paused'))).rejects.toThrow('connection lost');
      await expect(journal.append(linesOf('paused, resumed'))).rejects.toThrow('connection lost');
      await journal.append(linesOf('breaker_opened errors'));
      expect(await steps()).toEqual(['marked', 'breaker_opened']);
      expect(await reopened()).toEqual(journal.state);
    });
  });

  it.each([
    ['auto-cancel/journal/000000000003', '{"at":'],
    ['auto-cancel/journal/000000000003', 'null'],
    ['auto-cancel/journal/000000000003', '{"at":1}'],
    ['auto-cancel/journal/x', '{"at":1,"step":"resumed","by":"x","reason":"x"}'],
    ['auto-cancel/journal/3', '{"at":1,"step":"resumed","by":"x","reason":"x"}'],
  ])('is not opened, and not read, with the row %s: %s', async (key, value) => {
    const store = createMemoryStore();
    await (await openJournal(store, 'production')).append(linesOf('paused, breaker_opened errors'));
    await store.commit('production', [{ key, value }]);
    const damage = `the journal of the account production is damaged: ${key} is no line of it`;
    await expect(openJournal(store, 'production')).rejects.toThrow(damage);
    await expect(readJournal(store, 'production')).rejects.toThrow(damage);
  });

  describe('read from its end', () => {
    /** One line a minute; gives the prefixes that are read. */
    async function longJournal(count: number) {
      const memory = createMemoryStore();
      const scanned: string[] = [];
      const store = {
        ...memory,
        scan(account: string, prefix: string) {
          scanned.push(prefix);
          return memory.scan(account, prefix);
        },
      };
      const journal = await openJournal(store, 'production');
      await journal.append(Array.from({ length: count }, (_, index) => line('paused', index + 1)));
      scanned.length = 0;
      return { journal, scanned };
    }
    const from = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, index) => first + index);

    it.each([0, 1, 98, 99, 100, 101, 199, 200, 201, 350])('has each of %i lines once', async count => {
      const { journal } = await longJournal(count);
      expect((await newestLines([journal.lines], 0, 1000)).map(({ at }) => at)).toEqual(from(1, count));
    });

    it('has what is young enough, and of that the newest, and reads no more than that needs', async () => {
      const { journal, scanned } = await longJournal(1234);
      const times = async (...args: [number, number]) =>
        (await newestLines([journal.lines], ...args)).map(({ at }) => at);
      expect(await times(1180, 1000)).toEqual(from(1180, 1234));
      const block = (number: number) => `auto-cancel/journal/${String(number).padStart(10, '0')}`;
      expect(scanned).toEqual([block(12), block(11), block(10)]);
      scanned.length = 0;
      expect(await times(0, 40)).toEqual(from(1195, 1234));
      expect(scanned).toEqual([block(12), block(11)]);
      expect(await times(1235, 1000)).toEqual([]);
    });

    it('has the newest of several journals, and reads of each no more than that needs', async () => {
      const [long, old] = [await longJournal(1234), await longJournal(1000)];
      const newest = await newestLines([long.journal.lines, old.journal.lines], 0, 300);
      expect(newest.map(({ at }) => at)).toEqual([
        ...from(967, 1000)
          .flatMap(at => [at, at])
          .slice(2),
        ...from(1001, 1234),
      ]);
      expect([long.scanned.length, old.scanned.length]).toEqual([4, 2]);
      expect(await newestLines([], 0, 300)).toEqual([]);
    });

    it('lets other work have its turn', async () => {
      const { journal } = await longJournal(500);
      let turns = 0;
      let isDone = false;
      const count = () => {
        turns += 1;
        if (!isDone) setImmediate(count);
      };
      setImmediate(count);
      await newestLines([journal.lines], 0, 1000);
      isDone = true;
      expect(turns).toBeGreaterThan(3);
    });

    it('is none that hides damage', async () => {
      const store = createMemoryStore();
      const journal = await openJournal(store, 'production');
      await journal.append(linesOf('paused'));
      await store.commit('production', [{ key: 'auto-cancel/journal/000000000001', value: '{' }]);
      await expect(newestLines([journal.lines], 0, 10)).rejects.toThrow('is damaged');
    });
  });

  it('is opened in blocks of a thousand lines, between which other work runs', async () => {
    const memory = createMemoryStore();
    const value = JSON.stringify(line('paused', 1));
    const keys = Array.from(
      { length: 2500 },
      (_, index) => `auto-cancel/journal/${String(index + 1).padStart(12, '0')}`,
    );
    await memory.commit(
      'production',
      keys.map(key => ({ key, value })),
    );
    const rows: number[] = [];
    let turns = 0;
    const store: Store = {
      ...memory,
      async scan(...args) {
        setImmediate(() => {
          turns += 1;
        });
        const found = await memory.scan(...args);
        rows.push(found.size);
        return found;
      },
    };
    const journal = await openJournal(store, 'production');
    expect([rows, turns, journal.state.lastAt]).toEqual([[999, 1000, 501], 3, 1]);
  });

  it('may be long', async () => {
    const store = createMemoryStore();
    const value = JSON.stringify(line('paused', 1));
    const rows = Array.from({ length: 50_000 }, (_, index) => ({
      key: `auto-cancel/journal/${String(index + 1).padStart(12, '0')}`,
      value,
    }));
    await store.commit('production', rows);
    const journal = await openJournal(store, 'production');
    await journal.append(linesOf('resumed'));
    expect((await openJournal(store, 'production')).state.paused).toBeUndefined();
  });
});
