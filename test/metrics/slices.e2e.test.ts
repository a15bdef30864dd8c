import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createExposition } from '../../src/metrics/exposition.ts';
import { counter, gauge, type Source } from '../../src/metrics/family.ts';
import type { Format } from '../../src/model/exposition.ts';
import { parseExposition } from '../support/parse-exposition.ts';
import { runs } from '../support/runs.ts';

const family = gauge('delivery_test_size', 'A size.', ['key']);

/** Creates accounts with new values in every revision. */
function createAccounts(count: number, keys: number) {
  let revision = 0;
  const sources = Array.from(
    { length: count },
    (_, account): Source => ({
      account: `account-${account}`,
      families: [family],
      revision: () => revision,
      samples() {
        const values = Array.from({ length: keys }, (_, key) => ({
          labels: { key: `k${key}` },
          value: revision + key,
        }));
        return new Map([[family.name, values]]);
      },
    }),
  );
  return {
    sources,
    change() {
      revision += 1;
    },
    text() {
      const lines = sources.flatMap(({ account }) =>
        Array.from(
          { length: keys },
          (_, key) => `delivery_test_size{account="${account}",key="k${key}"} ${revision + key}\n`,
        ),
      );
      return `# HELP delivery_test_size A size.\n# TYPE delivery_test_size gauge\n${lines.join('')}`;
    },
  };
}

// Rendering must take longer than one slice.
it.each([
  [1000, 40, 'text', true],
  [1000, 40, 'text', false],
  [1000, 40, 'openmetrics', true],
  [1, 40_000, 'text', false],
] as const)(
  'rendering %i accounts with %i keys in %s (gzip: %s) yields to the event loop and returns every sample',
  async (count, keys, format, gzip) => {
    const { sources, change, text } = createAccounts(count, keys);
    const exposition = createExposition(sources);
    for (let round = 0; round < 2; round += 1) {
      let turns = 0;
      let isRendering = true;
      const tick = () => {
        turns += 1;
        if (isRendering) setImmediate(tick);
      };
      setImmediate(tick);
      const body = await exposition.render({ scope: 'everything', format, gzip });
      isRendering = false;
      expect(turns).toBeGreaterThan(1);
      const end = format === 'openmetrics' ? '# EOF\n' : '';
      expect((gzip ? gunzipSync(body) : body).toString() === text() + end).toBe(true);
      change();
    }
  },
);

it('the exposition is complete and current even if values change during concurrent requests', async () => {
  const { sources, change } = createAccounts(200, 40);
  const exposition = createExposition(sources);
  const options = { scope: 'everything', format: 'text', gzip: true } as const;
  const bodies = Array.from({ length: 5 }, async () => {
    const body = exposition.render(options);
    change();
    return gunzipSync(await body).toString();
  });
  for (const text of await Promise.all(bodies)) expect(text.match(/^delivery_test_size{/gm)).toHaveLength(200 * 40);
  const last = gunzipSync(await exposition.render(options)).toString();
  expect(last).toBe((await createExposition(sources).render({ ...options, gzip: false })).toString());
});

const steps = counter('delivery_test_steps_total', 'Steps.', ['key']);

/** Creates a source with two families. Both show the revision, `sizes[revision]` times. */
function createStepping(account: string, sizes: readonly number[]) {
  let revision = 0;
  const source: Source = {
    account,
    families: [family, steps],
    revision: () => revision,
    samples() {
      const values = Array.from({ length: sizes[revision % sizes.length] ?? 1 }, (_, key) => ({
        labels: { key: `k${key}` },
        value: revision,
      }));
      return new Map([family, steps].map(({ name }) => [name, values]));
    },
  };
  return {
    source,
    revision: () => revision,
    change() {
      revision += 1;
    },
  };
}

/** Few samples, or enough samples for several rendering slices. */
const anySizes = fc.array(fc.oneof(fc.constant(1), fc.constant(4000)), { minLength: 1, maxLength: 3 });

const anyRequest = fc.record({
  changes: fc.array(fc.nat(2), { maxLength: 3 }),
  turns: fc.nat(3),
  format: fc.constantFrom<Format>('text', 'openmetrics'),
  gzip: fc.boolean(),
});

it('concurrent requests show each source in one state, never older than at the start of the request', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anySizes, { minLength: 3, maxLength: 3 }),
      fc.array(anyRequest, { minLength: 2, maxLength: 6 }),
      async (sizes, requests) => {
        const all = sizes.map((size, index) => createStepping(`account-${index}`, size));
        const exposition = createExposition(all.map(({ source }) => source));
        const pending: Promise<void>[] = [];
        for (const { changes, turns, format, gzip } of requests) {
          for (const index of changes) all[index]?.change();
          for (let turn = 0; turn < turns; turn += 1) await new Promise(resolve => setImmediate(resolve));
          const least = all.map(({ revision }) => revision());
          const check = async () => {
            const body = await exposition.render({ scope: 'everything', format, gzip });
            const text = (gzip ? gunzipSync(body) : body).toString();
            const samples = parseExposition(text, format).flatMap(family => family.samples);
            for (const [index, { revision }] of all.entries()) {
              const own = samples.filter(({ labels }) => labels.account === `account-${index}`);
              const [state = Number.NaN] = own.map(({ value }) => value);
              expect(new Set(own.map(({ value }) => value))).toEqual(new Set([state]));
              expect(own).toHaveLength(2 * (sizes[index]?.[state % (sizes[index]?.length ?? 1)] ?? 0));
              expect(state).toBeGreaterThanOrEqual(least[index] ?? Number.NaN);
              expect(state).toBeLessThanOrEqual(revision());
            }
          };
          pending.push(check());
        }
        await Promise.all(pending);
      },
    ),
    { numRuns: runs(40) },
  );
});
