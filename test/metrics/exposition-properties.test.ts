import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createExposition } from '../../src/metrics/exposition.ts';
import { counter, gauge, type Sample } from '../../src/metrics/family.ts';
import type { Format, Scope } from '../../src/model/exposition.ts';
import { parseExposition } from '../support/parse-exposition.ts';
import { runs } from '../support/runs.ts';
import { anyNumber, createFakeSource, hostileText } from './sources.ts';

const FORMATS = ['text', 'openmetrics'] as const;

test('a strict parser reads back any label value and any number unchanged', async () => {
  const family = gauge('delivery_x', 'x', ['first', 'second']);
  const sample = fc.record({ labels: fc.record({ first: hostileText, second: hostileText }), value: anyNumber });
  await fc.assert(
    fc.asyncProperty(
      hostileText,
      fc.array(sample, { minLength: 1 }),
      fc.constantFrom(...FORMATS),
      async (account, samples, format) => {
        const source = createFakeSource([family], { delivery_x: samples }, account);
        const body = await createExposition([source]).render({ scope: 'everything', format, gzip: false });
        const [parsed] = parseExposition(body.toString(), format);
        // The first sample of equal series is kept. -0 becomes 0.
        const expected = new Map<string, number>();
        for (const { labels, value } of samples) {
          const key = JSON.stringify([account, labels.first, labels.second]);
          if (!expected.has(key)) expected.set(key, value === 0 ? 0 : value);
        }
        const actual = parsed?.samples.map(({ labels, value }) => [JSON.stringify(Object.values(labels)), value]);
        expect(actual).toEqual([...expected]);
      },
    ),
  );
});

const families = [gauge('delivery_small', 'x'), counter('delivery_keys_total', 'x', ['key']), gauge('delivery_c', 'x')];
const names = ['a', 'b', 'c', undefined];

/** Few or many lines: the text of a family is rendered in pieces of 500 lines. */
const anySamples = fc
  .record({
    small: fc.option(fc.nat(9)),
    keys: fc.oneof(fc.nat(5), fc.nat(300), fc.nat(1200)),
    salt: hostileText,
    c: fc.boolean(),
  })
  .map(
    ({ small, keys, salt, c }): Record<string, Sample[]> => ({
      ...(small === null ? {} : { delivery_small: [{ labels: {}, value: small }] }),
      delivery_keys_total: Array.from({ length: keys }, (_, i) => ({ labels: { key: `${i}${salt}` }, value: i })),
      delivery_c: c ? [{ labels: {}, value: 1 }] : [],
    }),
  );

const anyScope = fc.constantFrom<Scope>('everything', 'agent', { account: 'a' }, { account: 'b' }, { account: 'none' });

const anyStep = fc.oneof(
  fc.record({ set: fc.nat(99), samples: anySamples }),
  fc.record({ scope: anyScope, format: fc.constantFrom<Format>(...FORMATS), gzip: fc.boolean() }),
);

test('after any sequence of changes and renders, the output equals that of a new exposition', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 150 }), fc.array(anyStep, { maxLength: 15 }), async (count, steps) => {
      const sources = Array.from({ length: count }, (_, i) =>
        createFakeSource(families.slice(i % 2), { delivery_c: [{ labels: {}, value: i }] }, names[i % names.length]),
      );
      const exposition = createExposition(sources);
      for (const step of steps) {
        if ('set' in step) {
          const source = sources[step.set % count];
          const listed = source?.families.map(({ name }) => [name, step.samples[name] ?? []]);
          source?.set(Object.fromEntries(listed ?? []));
          continue;
        }
        const body = await exposition.render(step);
        const fresh = await createExposition(sources).render({ ...step, gzip: false });
        expect((step.gzip ? gunzipSync(body) : body).equals(fresh)).toBe(true);
      }
    }),
    { numRuns: runs(200) },
  );
});
