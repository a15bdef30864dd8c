import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { createExposition } from '../../src/metrics/exposition.ts';
import { createHistogram, histogram, histogramSamples, observeValue } from '../../src/metrics/family.ts';
import { parseExposition } from '../support/parse-exposition.ts';

const BOUNDS = [1, 10];
const family = histogram('x_seconds', 'Seconds.');
const [ONE, TWO] = ['1'.repeat(32), '2'.repeat(32)];

it('OpenMetrics contains the latest exemplar of each bucket; the text format contains none', async () => {
  const state = createHistogram(BOUNDS);
  let revision = 0;
  const exposition = createExposition([
    {
      account: 'a',
      families: [family],
      revision: () => revision,
      samples: () => new Map([[family.name, histogramSamples({}, BOUNDS, state)]]),
    },
  ]);
  const show = async (format: 'text' | 'openmetrics', gzip = false) => {
    const body = await exposition.render({ scope: 'everything', format, gzip });
    return (gzip ? gunzipSync(body) : body).toString();
  };
  const observe = (value: number, exemplar?: { traceId: string; time: number }) => {
    observeValue(state, BOUNDS, value, exemplar);
    revision += 1;
  };
  const exemplars = async () =>
    (parseExposition(await show('openmetrics'), 'openmetrics')[0]?.samples ?? []).map(({ exemplar }) => exemplar);

  observe(0.5);
  expect(await exemplars()).toEqual([undefined, undefined, undefined, undefined, undefined]);
  observe(0.7, { traceId: ONE, time: 1_700_000_000_123 });
  observe(0.8, { traceId: TWO, time: 1_700_000_000_456 });
  observe(0.9);
  observe(99, { traceId: ONE, time: 1_700_000_001_000 });
  expect(await exemplars()).toEqual([
    { labels: { trace_id: TWO }, value: 0.8, at: 1_700_000_000.456 },
    undefined,
    { labels: { trace_id: ONE }, value: 99, at: 1_700_000_001 },
    undefined,
    undefined,
  ]);
  expect(await show('openmetrics', true)).toBe(await show('openmetrics'));
  expect(await show('text')).not.toContain('trace_id');
  const [{ samples } = { samples: [] }] = parseExposition(await show('text'), 'text');
  expect(samples.map(({ value }) => value)).toEqual([4, 4, 5, 101.9, 5]);

  // A reopened account may have the same values without exemplars.
  delete state.exemplars;
  revision += 1;
  expect(await exemplars()).toEqual([undefined, undefined, undefined, undefined, undefined]);
  expect(await show('openmetrics', true)).toBe(await show('openmetrics'));
});
