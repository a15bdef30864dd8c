import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Change } from '../../src/model/change.ts';
import { endOfPrefix } from '../../src/store/changes.ts';
import { openStore } from '../../src/store/open.ts';
import { newFolder } from '../support/folder.ts';
import { runs } from '../support/runs.ts';

/**
 * Keys from a small set that share prefixes, made of characters that sort or match differently across engines, plus some random
 * keys.
 */
const key = fc.oneof(
  { weight: 4, arbitrary: fc.string({ unit: fc.constantFrom('a', 'A', '%', '_', '\0', '/'), maxLength: 3 }) },
  {
    weight: 3,
    arbitrary: fc.string({
      unit: fc.constantFrom('\u{10ffff}', '\ud7ff', '\ue000', '\uffff', '\u{10000}', 'é'),
      maxLength: 3,
    }),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 8 }) },
);
const account = fc.constantFrom('a', 'b', 'A');
const value = fc.oneof(
  { weight: 3, arbitrary: fc.string({ unit: 'binary', maxLength: 5 }) },
  { weight: 1, arbitrary: fc.nat(20_000).map(length => 'long'.repeat(length)) },
  { weight: 2, arbitrary: fc.constant(null) },
);
const changes: fc.Arbitrary<Change[]> = fc.array(fc.record({ key, value }), { maxLength: 6 });

const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ commits: fc.array(fc.record({ account, changes }), { maxLength: 4 }) }) },
  { weight: 5, arbitrary: fc.record({ account, prefix: key }) },
  { weight: 1, arbitrary: fc.constant('reopen' as const) },
);

describe.each(['memory', 'sqlite'] as const)('%s store', kind => {
  it('a store behaves like a plain map', async () => {
    const folder = newFolder();
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async steps => {
        const path = join(mkdtempSync(join(folder, 'run-')), 'rows.db');
        const model = new Map<string, Map<string, string>>();
        let store = await openStore({ kind, path });
        try {
          for (const step of steps) {
            if (step === 'reopen') {
              if (kind === 'memory') continue;
              await store.close();
              store = await openStore({ kind, path });
            } else if ('commits' in step) {
              await Promise.all(step.commits.map(({ account, changes }) => store.commit(account, changes)));
              for (const { account, changes } of step.commits) {
                const rows = model.get(account) ?? new Map<string, string>();
                model.set(account, rows);
                for (const { key, value } of changes) value === null ? rows.delete(key) : rows.set(key, value);
              }
            } else {
              const rows = [...(model.get(step.account) ?? [])].filter(([key]) => key.startsWith(step.prefix));
              expect(await store.scan(step.account, step.prefix)).toEqual(new Map(rows));
            }
          }
        } finally {
          await store.close();
        }
      }),
      { numRuns: runs(100) },
    );
  });
});

describe('prefix ends', () => {
  const compare = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

  it('in byte order, a text lies between a prefix and endOfPrefix(prefix) if and only if it starts with the prefix', () => {
    fc.assert(
      fc.property(key, key, (prefix, text) => {
        const end = endOfPrefix(prefix);
        expect(compare(text, prefix) >= 0 && (end === undefined || compare(text, end) < 0)).toBe(
          text.startsWith(prefix),
        );
        const longer = prefix + text;
        expect(compare(longer, prefix) >= 0 && (end === undefined || compare(longer, end) < 0)).toBe(true);
      }),
      { numRuns: runs(2000) },
    );
  });

  it.each([
    ['', undefined],
    ['\u{10ffff}', undefined],
    ['a\u{10ffff}\u{10ffff}', 'b'],
    ['a\ud7ff', 'a\ue000'],
    ['dlq/', 'dlq0'],
  ])('the end of the prefix %j is %j', (prefix, end) => {
    expect(endOfPrefix(prefix)).toBe(end);
  });
});
