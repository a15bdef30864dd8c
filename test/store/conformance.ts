import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../src/store/store.ts';

export interface Conforming {
  /**
   * Creates an empty location for rows. The returned function opens a store there, with write access to accounts a, b and c and
   * to agent-wide rows.
   */
  fresh(): Promise<() => Promise<Store>>;
  /** Whether rows survive closing and reopening. */
  readonly isLasting: boolean;
}

/** Defines the tests that every kind of store must pass. */
export function conformanceOf({ fresh, isLasting }: Conforming): void {
  let open: () => Promise<Store>;
  let store: Store;
  beforeEach(async () => {
    open = await fresh();
    store = await open();
  });
  afterEach(() => store.close());

  const put = (...keys: string[]) => keys.map(key => ({ key, value: `value of ${key}` }));
  const found = async (prefix: string) => [...(await store.scan('a', prefix)).keys()].sort();

  it('a store returns committed rows by account and prefix', async () => {
    await store.commit('a', [
      { key: 'dlq/1', value: 'one' },
      { key: 'dlq/2', value: '' },
      { key: 'dlqs/3', value: 'three' },
      { key: 'events/1', value: 'x' },
    ]);
    await store.commit('b', [{ key: 'dlq/1', value: 'other' }]);
    expect(await store.scan('a', 'dlq/')).toEqual(
      new Map([
        ['dlq/1', 'one'],
        ['dlq/2', ''],
      ]),
    );
    expect(await store.scan('b', '')).toEqual(new Map([['dlq/1', 'other']]));
    expect(await store.scan('c', '')).toEqual(new Map());
    expect(await store.scan('', '')).toEqual(new Map());
  });

  it('a store returns the sizes of rows in bytes', async () => {
    await store.commit('a', [
      { key: 'history/1', value: 'é'.repeat(10_000) },
      { key: 'history/2', value: '' },
      { key: 'other', value: 'x' },
    ]);
    await store.commit('b', [{ key: 'history/1', value: 'other' }]);
    expect(await store.sizes('a', 'history/')).toEqual(
      new Map([
        ['history/1', 20_000],
        ['history/2', 0],
      ]),
    );
    expect((await store.sizes('a', '')).get('other')).toBe(1);
    expect(await store.sizes('c', '')).toEqual(new Map());
  });

  it('a store replaces and deletes rows; the last change of a key wins', async () => {
    await store.commit('a', [
      { key: 'k', value: '1' },
      { key: 'removed', value: '1' },
    ]);
    await store.commit('a', [
      { key: 'k', value: '2' },
      { key: 'removed', value: null },
      { key: 'never', value: null },
      { key: 'k', value: '3' },
    ]);
    expect(await store.scan('a', '')).toEqual(new Map([['k', '3']]));
    await store.commit('a', []);
    expect(await store.scan('a', '')).toEqual(new Map([['k', '3']]));
  });

  it.each([
    ['SQL wildcards', '%', ['%', '%a'], ['a%', '_']],
    ['one-character wildcards', 'a_', ['a_', 'a_b'], ['aab', 'a']],
    ['globs', '*', ['*', '*a'], ['a*', 'b']],
    ['case', 'a', ['a', 'ab'], ['A', 'Ab']],
    ['accents', 'e', ['e', 'e\u0301'], ['\u00e9']],
    ['the last code point', '\u{10ffff}', ['\u{10ffff}', '\u{10ffff}a'], ['\u{10fffe}', 'a']],
    [
      'the last code point after another character',
      'a\u{10ffff}',
      ['a\u{10ffff}', 'a\u{10ffff}\u{10ffff}'],
      ['a', 'b', 'a\u{10fffe}'],
    ],
    ['the character before the surrogates', '\ud7ff', ['\ud7ff', '\ud7ffa'], ['\ue000', '\u{10000}']],
    ['the last code point of 16 bits', '\uffff', ['\uffff', '\uffffa'], ['\u{10000}', '\ufffe']],
    ['surrogate pairs', '😀', ['😀', '😀a'], ['😁', '\ud7ff', '\ue000']],
    ['NUL', 'a\0', ['a\0', 'a\0b'], ['a', 'a\x01']],
  ])('a store matches a prefix literally: %s', async (_what, prefix, inside, outside) => {
    await store.commit('a', put(...inside, ...outside));
    expect(await found(prefix)).toEqual([...inside].sort());
    expect(await found('')).toEqual([...inside, ...outside].sort());
  });

  it.each([
    ['a megabyte', 'é'.repeat(2 ** 20)],
    ['NUL', 'a\0b'],
    ['a byte order mark', '\ufeffa'],
    ['JSON', JSON.stringify({ text: '\ud800 "quoted" \n' })],
  ])('a store stores a value unchanged: %s', async (_what, value) => {
    await store.commit('a', [{ key: 'k', value }]);
    expect((await store.scan('a', 'k')).get('k') === value).toBe(true);
  });

  it('a store accepts keys of 512 characters and rejects a commit that contains a longer key', async () => {
    const key = '\uffff'.repeat(512);
    await store.commit('a', [{ key, value: 'long' }]);
    await expect(store.commit('a', put('k', `${key}x`))).rejects.toMatchObject({ reason: 'invalid' });
    expect(await store.scan('a', '')).toEqual(new Map([[key, 'long']]));
  });

  it.each([
    ['a', 'half \ud83d', 'v'],
    ['a', 'k', 'half \ude00'],
    ['\ud83d', 'k', 'v'],
  ])(
    'a store rejects text with lone surrogates, which would not be read back unchanged',
    async (account, key, value) => {
      await expect(store.commit(account, [...put('fine'), { key, value }])).rejects.toMatchObject({
        reason: 'invalid',
      });
      expect(await found('')).toEqual([]);
    },
  );

  describe('guarded commits', () => {
    const guard = { account: '', key: 'guard', value: 'go' };
    const setGuard = (value: string | null) => store.commit('', [{ key: 'guard', value }]);

    it('a guarded commit is written while the guard row has the required value', async () => {
      await setGuard('go');
      await store.commit('a', put('1'), guard);
      await store.commit('b', put('1'), { account: 'a', key: '1', value: 'value of 1' });
      await store.commit('', [{ key: 'guard', value: 'stop' }], guard);
      expect([await found(''), await store.scan('b', ''), await store.scan('', '')]).toEqual([
        ['1'],
        new Map([['1', 'value of 1']]),
        new Map([['guard', 'stop']]),
      ]);
    });

    it.each([null, 'stop', 'go '])('a guarded commit is rejected when the guard row is %j', async value => {
      await setGuard(value);
      await expect(store.commit('a', put('1', '2'), guard)).rejects.toMatchObject({
        name: 'StoreError',
        reason: 'guard_failed',
      });
      expect(await found('')).toEqual([]);
      await setGuard('go');
      await store.commit('a', put('3'), guard);
      expect(await found('')).toEqual(['3']);
    });

    it('a rejected guarded commit does not affect concurrent commits, which are written in order', async () => {
      await setGuard('go');
      const guarded = (key: string) =>
        store.commit('a', put(key, 'both'), guard).then(
          () => 'written',
          ({ reason }) => reason,
        );
      const plain = (key: string) => store.commit('a', [...put(key), { key: 'both', value: key }]);
      const before = [plain('1'), guarded('2'), plain('3'), store.commit('b', put('1'))];
      await Promise.all(before);
      expect(await before[1]).toBe('written');
      // Commits of different accounts may be written in any order.
      await setGuard('stop');
      const after = [plain('4'), guarded('5'), plain('6'), store.commit('b', put('2'))];
      await Promise.all(after);
      expect(await after[1]).toBe('guard_failed');
      expect(await found('')).toEqual(['1', '2', '3', '4', '6', 'both']);
      expect((await store.scan('a', 'both')).get('both')).toBe('6');
      expect([...(await store.scan('b', '')).keys()].sort()).toEqual(['1', '2']);
    });

    it('a guarded commit is rejected as invalid if the guard value cannot be stored', async () => {
      await expect(store.commit('a', put('1'), { ...guard, value: '\ud800' })).rejects.toMatchObject({
        reason: 'invalid',
      });
    });
  });

  it('a store creates an agent-wide row and leaves an existing one unchanged', async () => {
    await store.create('k', 'first');
    await store.create('k', 'second');
    await Promise.all([store.commit('', [{ key: 'other', value: 'committed' }]), store.create('other', 'created')]);
    const expected = new Map([
      ['k', 'first'],
      ['other', 'committed'],
    ]);
    expect(await store.scan('', '')).toEqual(expected);
    await store.close();
    await expect(store.create('k', 'late')).rejects.toMatchObject({ reason: 'closed' });
  });

  it('a store returns the value of a key for every account that has it', async () => {
    expect(await store.valuesOf('k')).toEqual(new Map());
    for (const account of ['', 'a', 'c'])
      await store.commit(account, [...put('k2'), { key: 'k', value: `${account}!` }]);
    await store.commit('b', put('k1', 'l'));
    expect(await store.valuesOf('k')).toEqual(
      new Map([
        ['', '!'],
        ['a', 'a!'],
        ['c', 'c!'],
      ]),
    );
  });

  it('a store keeps the order of concurrent commits', async () => {
    const numbers = Array.from({ length: 200 }, (_, n) => String(n));
    await Promise.all(numbers.map(value => store.commit('a', [{ key: 'k', value }])));
    expect(await store.scan('a', '')).toEqual(new Map([['k', '199']]));
  });

  it('a store ignores changes to the array after commit was called', async () => {
    const change = { key: 'k', value: 'before' };
    const changes = [change];
    const committed = store.commit('a', changes);
    change.value = 'after';
    changes.push({ key: 'late', value: 'after' });
    await committed;
    expect(await store.scan('a', '')).toEqual(new Map([['k', 'before']]));
  });

  it('a store returns rows that later commits do not modify', async () => {
    await store.commit('a', [{ key: 'k', value: '1' }]);
    const rows = await store.scan('a', '');
    await store.commit('a', [{ key: 'k', value: '2' }]);
    expect(rows).toEqual(new Map([['k', '1']]));
  });

  it('a store rejects calls once closed; closing again does nothing', async () => {
    await store.close();
    await store.close();
    const closed = { name: 'StoreError', reason: 'closed', message: expect.stringContaining('is closed') };
    await expect(store.commit('a', [{ key: 'k', value: '1' }])).rejects.toMatchObject(closed);
    await expect(store.scan('a', '')).rejects.toMatchObject(closed);
  });

  it('a store completes accepted commits before it closes', async () => {
    let done = 0;
    const commits = put('1', '2', '3').map(change => store.commit('a', [change]).then(() => (done += 1)));
    const closed = store.close();
    await expect(store.commit('a', put('late'))).rejects.toMatchObject({ reason: 'closed' });
    await closed;
    await Promise.all(commits);
    expect(done).toBe(3);
    if (!isLasting) return;
    store = await open();
    expect(await found('')).toEqual(['1', '2', '3']);
  });
}
