import { afterEach, expect, it, vi } from 'vitest';
import { options } from '../../../src/status/page/assets/chart-options.js';

afterEach(() => void vi.unstubAllGlobals());

it('the labels of the time axis differ', () => {
  vi.stubGlobal('getComputedStyle', () => ({}));
  vi.stubGlobal('uPlot', { paths: { stepped: () => undefined, bars: () => undefined } });
  const chart = { spec: { kind: 'level' }, plot: { clientWidth: 600 }, marks: [], ends: [0, 300] };
  const [axis] = options(chart, { times: [], lines: [] }).axes as {
    incrs: number[];
    values: (...of: unknown[]) => string[];
  }[];
  const step = Math.min(...(axis?.incrs ?? []));
  const ticks = Array.from({ length: 10 }, (_, index) => index * step);
  expect(new Set(axis?.values(undefined, ticks)).size).toBe(10);
});
