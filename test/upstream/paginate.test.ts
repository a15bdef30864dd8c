import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_PAGES, paginate } from '../../src/upstream/paginate.ts';
import { allRows } from '../support/client.ts';

describe('paginate', () => {
  it('paginate returns each row once, in order, regardless of the page boundaries', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.integer(), { maxLength: 4 }), { minLength: 1, maxLength: 12 }),
        fc.boolean(),
        async (pages, numeric) => {
          const cursorOf = (index: number) => (numeric ? String(index) : `c-${'x'.repeat(index)}`);
          const cursors: (string | undefined)[] = [];
          const rows = await allRows(
            paginate('list', async cursor => {
              cursors.push(cursor);
              const index = cursor === undefined ? 0 : pages.findIndex((_, at) => cursorOf(at) === cursor);
              const last = index === pages.length - 1;
              return {
                rows: pages[index] ?? [],
                rejected: 0,
                incomplete: 0,
                cursor: last ? undefined : cursorOf(index + 1),
              };
            }),
          );
          expect(rows).toEqual(pages.flat());
          expect(cursors).toEqual(pages.map((_, index) => (index === 0 ? undefined : cursorOf(index))));
        },
      ),
    );
  });

  it('paginate stops at a repeated cursor', async () => {
    const next: Record<string, string> = { start: 'a', a: 'b', b: 'c', c: 'a' };
    let calls = 0;
    const walk = allRows(
      paginate('list', async cursor => {
        calls += 1;
        return { rows: [calls], rejected: 0, incomplete: 0, cursor: next[cursor ?? 'start'] };
      }),
    );
    await expect(walk).rejects.toMatchObject({
      reason: 'invalid_response',
      message: 'list: the service repeated a cursor',
    });
    expect(calls).toBe(4);
  });

  it('paginate stops an endless list', async () => {
    let calls = 0;
    const walk = allRows(
      paginate('list', async () => {
        calls += 1;
        return { rows: [], rejected: 0, incomplete: 0, cursor: String(calls) };
      }),
    );
    await expect(walk).rejects.toMatchObject({
      reason: 'invalid_response',
      message: `list: no end after ${MAX_PAGES} pages`,
    });
    expect(calls).toBe(MAX_PAGES);
  });

  it('paginate reads no page before it is requested', async () => {
    let calls = 0;
    const pages = paginate('list', async () => {
      calls += 1;
      return { rows: [], rejected: 0, incomplete: 0, cursor: String(calls) };
    });
    expect(calls).toBe(0);
    await pages.next();
    expect(calls).toBe(1);
  });
});
