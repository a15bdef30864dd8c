import { describe, expect, it } from 'vitest';
import { boundOf, drawn, increases, stacked } from '../../../src/status/page/assets/chart-data.js';

const NOW = '2026-11-22T10:00:00.000Z';
type Values = (number | null)[];
const series = (family: string, labels: Record<string, string>, values: Values) => ({ family, labels, values });
const view = (times: number[], ...of: ReturnType<typeof series>[]) => ({
  now: NOW,
  account: 'a',
  keptFor: '48h',
  times,
  series: of,
});

describe('increases', () => {
  const times = [0, 60, 120, 180, 240];
  it('the increase of a counter is exact, and each step counts once', () => {
    expect(increases(times, [5, 6, 9, 9, 20], [0, 120], 120)).toEqual([4, 11]);
  });
  it('the increase of a counter is unknown in a gap, and increases during the gap are not drawn', () => {
    const withGap = [0, 60, 120, 180, 900, 960];
    expect(increases(withGap, [5, 6, 9, null, 500, 501], [0, 60, 120, 840, 900], 60)).toEqual([1, 3, null, null, 1]);
    expect(increases(times, [null, null, 9, 9, 10], [0, 60, 120, 180], 60)).toEqual([null, null, 0, 1]);
  });
  it('the increase of a counter is never negative: a counter that drops was reset', () => {
    expect(increases(times, [50, 60, 3, 4, 4], [0, 120], 120)).toEqual([13, 1]);
  });
});

describe('quantiles', () => {
  const buckets: [number, number][] = [
    [0.5, 50],
    [1, 90],
    [60, 99],
    [Number.POSITIVE_INFINITY, 100],
  ];
  it.each([
    [0.5, 0.5],
    [0.9, 1],
    [0.95, 60],
    [0.99, 60],
    [1, null],
  ])('the upper bound of quantile %d is %s', (quantile, bound) => expect(boundOf(quantile, buckets)).toBe(bound));
  it('the upper bound of a quantile is unknown if all counts are 0', () => {
    expect(
      boundOf(0.5, [
        [1, 0],
        [Number.POSITIVE_INFINITY, 0],
      ]),
    ).toBeNull();
    expect(boundOf(0.5, [])).toBeNull();
  });
});

describe('chart series', () => {
  const names = (of: { lines: { name: string }[] }) => of.lines.map(({ name }) => name);

  it('drawn series are the total of a family, and its largest series', () => {
    const keys = view(
      [0, 60],
      series('w', { key: 'a' }, [1, 2]),
      series('w', { key: 'b' }, [5, 9]),
      series('w', { key: 'c' }, [null, 4]),
      series('x', {}, [7, 7]),
    );
    const lines = [
      { family: 'w', name: 'all' },
      { family: 'w', by: 'key', top: 2 },
    ];
    const found = drawn({ kind: 'level', lines }, keys, 0, 60);
    expect(names(found)).toEqual(['all', 'b', 'c']);
    expect(found.lines[0]?.values).toEqual([6, 15]);
    expect(found.width).toBe(0);
  });

  it('the drawn total of a family is its recorded total if there is one', () => {
    const keys = view([0], series('w', {}, [100]), series('w', { key: 'a' }, [60]));
    const lines = [
      { family: 'w', name: 'all' },
      { family: 'w', by: 'key' },
    ];
    const found = drawn({ kind: 'level', lines }, keys, 0, 60);
    expect(found.lines.map(({ name, values }: { name: string; values: Values }) => [name, values])).toEqual([
      ['all', [100]],
      ['a', [60]],
    ]);
  });

  it('a drawn series has a break in a gap', () => {
    const found = drawn(
      { kind: 'level', lines: [{ family: 'w', name: 'w' }] },
      view([0, 60, 120, 180, 900, 960], series('w', {}, [1, 2, 3, null, 4, 5])),
      0,
      960,
    );
    expect(found.times).toEqual([0, 60, 120, 180, 900, 960]);
    expect(found.lines[0]?.values).toEqual([1, 2, 3, null, 4, 5]);
  });

  it('a drawn series starts at 0 if it appears later than others of its family', () => {
    const counted = view(
      [0, 60, 120],
      series('c', { outcome: 'ok' }, [1, 2, 3]),
      series('c', { outcome: 'server' }, [null, null, 4]),
    );
    const found = drawn(
      { kind: 'stack', lines: [{ family: 'c', by: 'outcome', looks: { ok: 'calm' } }] },
      counted,
      0,
      120,
    );
    expect(names(found)).toEqual(['ok', 'server']);
    expect(found.width).toBe(60);
    expect(found.lines[1]?.values).toEqual([null, 0, 4]);
  });

  it('drawn series omit outcomes that did not occur; if none occurred, the first one is drawn', () => {
    const chart = { kind: 'stack' as const, lines: [{ family: 'c', by: 'outcome', looks: { ok: 'calm' as const } }] };
    const of = (server: number) =>
      view(
        [0, 60, 120],
        series('c', { outcome: 'bug' }, [2, 2, 2]),
        series('c', { outcome: 'server' }, [4, 4, server]),
        series('c', { outcome: 'ok' }, [1, 1, 1]),
      );
    expect(names(drawn(chart, of(5), 0, 120))).toEqual(['server']);
    expect(names(drawn(chart, of(4), 0, 120))).toEqual(['ok']);
  });

  it('the interval width of a drawn series grows with the time range', () => {
    const found = drawn({ kind: 'rate', lines: [] }, view([]), 0, 48 * 3600);
    expect(found.width).toBe(1800);
    expect(found.times).toHaveLength(97);
  });

  it('drawn quantiles show their upper bound in each interval', () => {
    const bucket = (le: string, values: Values) => series('h_bucket', { le }, values);
    const found = drawn(
      { kind: 'quantile', lines: [{ family: 'h_bucket' }] },
      view([0, 60, 120], bucket('+Inf', [0, 100, 100]), bucket('1.0', [0, 60, 60]), bucket('10.0', [0, 96, 96])),
      0,
      120,
    );
    expect(found.lines.map((line: { name: string; values: Values }) => [line.name, line.values])).toEqual([
      ['p50', [null, 1, null]],
      ['p90', [null, 10, null]],
      ['p99', [null, null, null]],
    ]);
  });

  it('each stacked series is the sum of itself and all previous series', () => {
    expect(stacked([{ values: [1, null, 3] }, { values: [2, 5, null] }])).toEqual([
      [1, null, 3],
      [3, 5, null],
    ]);
  });
});
