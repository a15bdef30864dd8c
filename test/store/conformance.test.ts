import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';

/** What every store must do, whatever it keeps its rows in. */
function describeStore(name: string, open: () => Promise<Store>): void {
  describe(`${name} store`, () => {
    let store: Store;
    beforeEach(async () => {
      store = await open();
    });
    afterEach(() => store.close());

    it('gives back what was committed, by account and prefix', async () => {
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
    });

    it('replaces and deletes rows; the last change of a key counts', async () => {
      await store.commit('a', [
        { key: 'k', value: '1' },
        { key: 'gone', value: '1' },
      ]);
      await store.commit('a', [
        { key: 'k', value: '2' },
        { key: 'gone', value: null },
        { key: 'never', value: null },
        { key: 'k', value: '3' },
      ]);
      expect(await store.scan('a', '')).toEqual(new Map([['k', '3']]));
    });

    it('refuses work once closed', async () => {
      await store.close();
      await expect(store.commit('a', [{ key: 'k', value: '1' }])).rejects.toThrow('closed');
      await expect(store.scan('a', '')).rejects.toThrow('closed');
    });
  });
}

describeStore('memory', async () => createMemoryStore());
