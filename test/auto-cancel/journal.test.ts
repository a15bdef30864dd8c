import { describe, expect, it } from 'vitest';
import { newestLines, openJournal, readJournal } from '../../src/auto-cancel/journal.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { line, linesOf, summaryOf } from './journal-lines.ts';

describe('journals', () => {
  it('a journal has the same state and order of lines after a restart, despite clock changes', async () => {
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

  it('a journal is unchanged if lines cannot be stored, and accepts later lines', async () => {
    const memory = createMemoryStore();
    let fails = false;
    const store = {
      ...memory,
      commit: (...args: Parameters<typeof memory.commit>) =>
        fails ? Promise.reject(new Error('disk full')) : memory.commit(...args),
    };
    const journal = await openJournal(store, 'production');
    const stepsAfter = async (line: number) => (await journal.after(line)).map(([, { step }]) => step);
    await journal.append(linesOf('marked 30'));
    fails = true;
    await expect(journal.append(linesOf('intent 1, answered 1 accepted'))).rejects.toThrow('disk full');
    expect(summaryOf(journal.state.actions.get('x'))).toBe('grace 30');
    fails = false;
    expect([journal.last(), await stepsAfter(0)]).toEqual([1, ['marked']]);
    await journal.append(linesOf('cleared'));
    expect((await readJournal(store, 'production')).map(({ step }) => step)).toEqual(['marked', 'cleared']);
    expect([journal.last(), await stepsAfter(1)]).toEqual([2, ['cleared']]);
  });

  describe('lines of rejected commits', () => {
    /**
     * Opens a journal on a store with scripted results of the next commits. `late`: the commit is stored only after the journal
     * has read its lines back.
     */
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
      const journal = await openJournal(store, 'production');
      await journal.append(linesOf('marked 30'));
      const steps = async () => (await readJournal(memory, 'production')).map(({ step }) => step);
      const reopened = async () => (await openJournal(memory, 'production')).state;
      return { journal, outcomes, steps, reopened, setReadable: (value: boolean) => (isReadable = value) };
    }

    it('before further lines are appended, the stored lines of a rejected commit are added to the state, and numbering continues after them', async () => {
      const { journal, outcomes, steps, reopened } = await openUnsure();
      outcomes.push('written');
      await expect(journal.append(linesOf('intent 1, answered 1 unknown'))).rejects.toThrow('connection lost');
      expect(summaryOf(journal.state.actions.get('x'))).toBe('grace 30');
      await journal.append(linesOf('paused'));
      expect(await steps()).toEqual(['marked', 'intent', 'answered', 'paused']);
      expect(summaryOf(journal.state.actions.get('x'))).toBe('grace 30, #1@1 unknown, open');
      expect((await journal.after(1)).map(([, { step }]) => step)).toEqual(['intent', 'answered', 'paused']);
      expect(await reopened()).toEqual(journal.state);
    });

    it('stored lines of a rejected commit are added to the state on confirm', async () => {
      const { journal, outcomes } = await openUnsure();
      outcomes.push('written');
      await expect(journal.append(linesOf('intent 1, answered 1 unknown'))).rejects.toThrow('connection lost');
      await journal.confirm();
      await journal.confirm();
      expect(summaryOf(journal.state.actions.get('x'))).toBe('grace 30, #1@1 unknown, open');
    });

    it('no line is appended after a rejected commit until the read-back of stored lines succeeds', async () => {
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

    it.each(['failed', 'late'] as const)('the next lines replace the lines of a %s commit', async outcome => {
      const { journal, outcomes, steps, reopened } = await openUnsure();
      outcomes.push(outcome);
      await expect(journal.append(linesOf('intent 1, answered 1 unknown'))).rejects.toThrow('connection lost');
      await journal.append(linesOf('paused'));
      expect(await steps()).toEqual(['marked', 'paused']);
      expect(summaryOf(journal.state.actions.get('x'))).toBe('grace 30');
      expect((await journal.after(0)).some(([, { step }]) => step === 'intent')).toBe(false);
      expect(await reopened()).toEqual(journal.state);
    });

    it('surplus lines of an earlier failed commit are deleted', async () => {
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
    ['auto-cancel/journal/000000000003', '{"at":1,"step":"intent","action":"x","attempt":1}'],
    ['auto-cancel/journal/000000000003', '{"at":1,"step":"answered","action":"x","attempt":1}'],
    ['auto-cancel/journal/x', '{"at":1,"step":"resumed","by":"x","reason":"x"}'],
    ['auto-cancel/journal/3', '{"at":1,"step":"resumed","by":"x","reason":"x"}'],
  ])('a journal cannot be opened or read with the invalid row %s: %s', async (key, value) => {
    const store = createMemoryStore();
    await (await openJournal(store, 'production')).append(linesOf('paused, breaker_opened errors'));
    await store.commit('production', [{ key, value }]);
    const damage = `the row ${key} of the account production is damaged: stop the agent and restore a backup of the store, as in docs/store.md`;
    await expect(openJournal(store, 'production')).rejects.toThrow(damage);
    await expect(readJournal(store, 'production')).rejects.toThrow(damage);
  });

  describe('journals read backwards', () => {
    /** Creates a journal with `count` lines, one per millisecond. `scanned`: prefixes read from the store afterwards. */
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

    it.each([0, 1, 98, 99, 100, 101, 199, 200, 201, 350])(
      'reading a journal backwards returns each of %i lines once',
      async count => {
        const { journal } = await longJournal(count);
        expect((await newestLines([journal.lines], 0, 1000)).map(({ at }) => at)).toEqual(from(1, count));
      },
    );

    it('reading a journal backwards returns the newest lines since a time and scans only the necessary blocks', async () => {
      const { journal, scanned } = await longJournal(1234);
      const times = async (...args: [number, number]) =>
        (await newestLines([journal.lines], ...args)).map(({ at }) => at);
      expect(await times(1180, 1000)).toEqual(from(1180, 1234));
      const block = (number: number) => `auto-cancel/journal/${String(number).padStart(10, '0')}`;
      expect(scanned).toEqual([block(12), block(11)]);
      scanned.length = 0;
      expect(await times(0, 40)).toEqual(from(1195, 1234));
      expect(scanned).toEqual([block(12), block(11)]);
      expect(await times(1235, 1000)).toEqual([]);
    });

    it('reading several journals backwards returns their newest lines and scans only the necessary blocks', async () => {
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

    it('reading a journal backwards yields to the event loop', async () => {
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

    it('reading a journal backwards rejects if a line is damaged', async () => {
      const store = createMemoryStore();
      const journal = await openJournal(store, 'production');
      await journal.append(linesOf('paused'));
      await store.commit('production', [{ key: 'auto-cancel/journal/000000000001', value: '{' }]);
      await expect(newestLines([journal.lines], 0, 10)).rejects.toThrow('is damaged');
    });
  });

  it('opening a journal reads its lines in blocks of a thousand and yields to the event loop in between', async () => {
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

  it('a journal of 50,000 lines can be opened and appended to', async () => {
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
