import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { createExposition } from '../../src/metrics/exposition.ts';
import { createBody, createFragment, type Fragment, fillFragment } from '../../src/metrics/exposition-body.ts';
import { gauge, type Source } from '../../src/metrics/family.ts';

const family = gauge('delivery_test_size', 'A size.', ['key']);

/** Creates accounts whose values change with every revision. */
function createAccounts(count: number) {
  let revision = 0;
  const sources = Array.from(
    { length: count },
    (_, account): Source => ({
      account: `account-${account}`,
      families: [family],
      revision: () => revision,
      samples() {
        const values = Array.from({ length: 40 }, (_, key) => ({ labels: { key: `k${key}` }, value: revision + key }));
        return new Map([[family.name, values]]);
      },
    }),
  );
  return {
    sources,
    change() {
      revision += 1;
    },
  };
}

it.each([
  ['text', true],
  ['text', false],
  ['openmetrics', true],
] as const)(
  'rendering %s (gzip: %s) in slices yields to the event loop and produces the same bytes as rendering at once',
  async (format, gzip) => {
    // Rendering must take longer than one slice.
    const { sources, change } = createAccounts(1000);
    const exposition = createExposition(sources);
    const options = { scope: 'everything', format, gzip } as const;
    for (let round = 0; round < 2; round += 1) {
      let turns = 0;
      let isRendering = true;
      const count = () => {
        turns += 1;
        if (isRendering) setImmediate(count);
      };
      setImmediate(count);
      const body = await exposition.renderInSlices(options);
      isRendering = false;
      expect(turns).toBeGreaterThan(1);
      const bytes = gzip ? gunzipSync(body) : body;
      expect(bytes.equals(createExposition(sources).render({ ...options, gzip: false }))).toBe(true);
      change();
    }
  },
);

it('the sliced exposition is complete and current even if values change during concurrent requests', async () => {
  const { sources, change } = createAccounts(200);
  const exposition = createExposition(sources);
  const options = { scope: 'everything', format: 'text', gzip: true } as const;
  const bodies = Array.from({ length: 5 }, async () => {
    const body = exposition.renderInSlices(options);
    change();
    return gunzipSync(await body).toString();
  });
  for (const text of await Promise.all(bodies)) expect(text.match(/^delivery_test_size{/gm)).toHaveLength(200 * 40);
  const last = gunzipSync(await exposition.renderInSlices(options)).toString();
  expect(last).toBe(
    createExposition(sources)
      .render({ ...options, gzip: false })
      .toString(),
  );
});

it.each(['gzip', 'plain'] as const)(
  'a body rendered in slices contains the fragments as they were when rendering started, and reuses unchanged ones: %s',
  form => {
    const fragments = Array.from({ length: 300 }, createFragment);
    const fill = (word: string, version: number) => {
      for (const fragment of fragments) fillFragment(fragment, `${word}\n`, version);
    };
    fill('old', 1);
    const body = createBody(fragments, 'utf8');
    const read = (bytes: Buffer) => (form === 'gzip' ? gunzipSync(bytes) : bytes).toString();
    const first = body[form]();
    first.next();
    fill('new', 2);
    const second = body[form]();
    const end = (steps: Generator<void, Buffer, void>): string => {
      for (;;) {
        const { done, value } = steps.next();
        if (done) return read(value);
      }
    };
    expect(end(second)).toBe('new\n'.repeat(300));
    expect(end(first)).toBe('old\n'.repeat(300));
    expect(body[form]().next().done, 'nothing has changed').toBe(true);
    expect(end(body[form]())).toBe('new\n'.repeat(300));
    fillFragment(fragments[299] as Fragment, 'last\n', 3);
    const third = body[form]();
    third.next();
    expect(third.next().done, 'one chunk has changed').toBe(true);
    expect(end(body[form]())).toBe(`${'new\n'.repeat(299)}last\n`);
  },
);
