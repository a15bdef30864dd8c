import { expect, it } from 'vitest';
import { counter, gauge } from '../../src/metrics/family.ts';
import { createShownSources } from '../../src/metrics/shown-sources.ts';
import { createFakeSource } from './sources.ts';

const [size, rate, left] = [gauge('d_size', 'h'), gauge('d_rate_used', 'h'), counter('d_left_total', 'h')];
const one = (value: number) => [{ labels: {}, value }];
const account = (name: string, exclude: string[]) => ({ name, collect: { families: { exclude } } });
const source = (name?: string) =>
  createFakeSource([size, rate, left], { d_size: one(1), d_rate_used: one(2), d_left_total: one(3) }, name);

it('shown sources omit exactly the families that the configuration of the account excludes', () => {
  const sources = [source('a'), source('b'), source()];
  const [a, b, agent] = createShownSources()(sources, [account('a', ['d_rate_*', 'd_left_total']), account('b', [])]);
  expect(a?.account).toBe('a');
  expect(a?.families).toEqual([size]);
  expect(a?.samples()).toEqual(new Map([['d_size', one(1)]]));
  expect(b).toBe(sources[1]);
  expect(agent).toBe(sources[2]);
});

it('a filtered source has the revision and the current samples of its original', () => {
  const a = source('a');
  const [shown] = createShownSources()([a], [account('a', ['d_rate_*'])]);
  expect(shown?.revision()).toBe(a.revision());
  a.set({ d_size: one(7), d_rate_used: one(8) });
  expect(shown?.revision()).toBe(a.revision());
  expect(shown?.samples()).toEqual(new Map([['d_size', one(7)]]));
});

it('createShownSources returns the same filtered source while the excluded families are unchanged, so that rendered text is reused', () => {
  const shownSources = createShownSources();
  const a = source('a');
  const shown = (...exclude: string[]) => shownSources([a], [account('a', exclude)])[0];
  const first = shown('d_rate_*');
  expect(shown('d_rate_*')).toBe(first);
  expect(shown('d_left_*')?.families).toEqual([size, rate]);
  expect(shown()).toBe(a);
  expect(shown('d_other')).toBe(a);
});
