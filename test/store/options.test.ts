import { describe, expect, it } from 'vitest';
import { storeOptions } from '../../src/store/options.ts';

describe('store options', () => {
  it('are a file by default', () => {
    expect(storeOptions.parse({})).toEqual({
      kind: 'sqlite',
      path: './data/delivery-watch.db',
      history: { keep: 48 * 3_600_000, maxMB: 100 },
    });
    expect(storeOptions.parse({ history: { keep: '0s', maxMB: 1 } }).history).toEqual({ keep: 0, maxMB: 1 });
  });

  it.each([
    [{ kind: 'postgres' }, 'must be sqlite or memory'],
    [{ path: '' }, 'must be the path of a file'],
    [{ path: 'a\0b' }, 'must be the path of a file'],
    [{ path: 1 }, 'must be the path of a file'],
    [{ history: { maxMB: 0 } }, 'must be a whole number from 1 to 100000'],
    [{ history: { maxMB: 1.5 } }, 'must be a whole number from 1 to 100000'],
    [
      { history: { keep: 'long' } },
      'must be a duration: a whole number and one of ms, s, m, h, d, such as 500ms, 15s or 4h, at most 366d',
    ],
    [{ file: 'x' }, 'Unrecognized key: "file"'],
  ])('refuse %j', (options, message) => {
    expect(storeOptions.safeParse(options).error?.issues.map(issue => issue.message)).toEqual([message]);
  });
});
