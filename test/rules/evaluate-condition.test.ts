import { describe, expect, it } from 'vitest';
import { type AlertEvidence, evaluateCondition, type Series } from '../../src/rules/evaluate-condition.ts';
import { alertCondition } from '../../src/rules/options.ts';

const NOW = Date.UTC(2026, 5, 1);

const START = NOW - 3_600_000;

type Values = Readonly<Record<string, number>>;

/**
 * Creates evidence of series with one label `x`. `firsts`: values at the start of the window. A series with a name that ends in
 * `~` starts later. If its name ends in `!`, its next values follow a gap.
 */
function evidenceOf(now: Readonly<Record<string, Values | undefined>>, firsts?: Readonly<Record<string, Values>>) {
  const requested: unknown[] = [];
  const evidence: AlertEvidence = {
    now: NOW,
    isPartial: () => false,
    isInconclusive: () => false,
    series(selector) {
      requested.push(selector);
      const values = now[selector.metric];
      return values && Object.entries(values).map(([x, value]): Series => ({ labels: { x }, value }));
    },
    window({ metric }, over) {
      expect(over).toBe(NOW - START);
      const points = ({ labels: { x }, value }: Series) => [
        ...Object.entries(firsts?.[metric] ?? {}).flatMap(([name, value]) =>
          name.replace(/[~!]/, '') === x ? { at: START + (name.endsWith('~') ? 60_000 : 0), value } : [],
        ),
        { at: NOW, value, isAfterGap: Object.hasOwn(firsts?.[metric] ?? {}, `${x}!`) },
      ];
      return firsts && { start: START, points };
    },
  };
  return { evidence, requested };
}

const resultOf = (when: object, { evidence }: { evidence: AlertEvidence }) =>
  evaluateCondition(alertCondition.parse(when), evidence);

const holding = (values: Values) => Object.entries(values).map(([x, value]) => ({ labels: { x }, value }));

describe('above and below', () => {
  const values = evidenceOf({ m: { a: 1, b: 2, c: 3 } });
  it('above and below hold for each series with a value beyond the limit', () => {
    expect(resultOf({ above: { metric: 'm', value: 2 } }, values)).toEqual(holding({ c: 3 }));
    expect(resultOf({ below: { metric: 'm', value: 2 } }, values)).toEqual(holding({ a: 1 }));
  });
  it('above and below do not hold if there are no series, and are unknown if there is no data', () => {
    expect(resultOf({ above: { metric: 'm', value: 2 } }, evidenceOf({ m: {} }))).toEqual([]);
    expect(resultOf({ above: { metric: 'm', value: 2 } }, evidenceOf({}))).toBe('unknown');
    expect(resultOf({ below: { metric: 'm', value: 2 } }, evidenceOf({}))).toBe('unknown');
  });
});

describe('growth', () => {
  const when = { growth: { metric: 'm', over: '1h', atLeast: 10 } };
  it('growth holds if a series has grown by at least the limit since the start of the window', () => {
    const both = evidenceOf({ m: { a: 19.9, b: 20, c: 99, d: 99 } }, { m: { a: 10, b: 10, 'c~': 0 } });
    expect(resultOf(when, both)).toEqual(holding({ b: 10 }));
  });
  it('growth is unknown if there is no data or the window is incomplete', () => {
    expect(resultOf(when, evidenceOf({ m: { a: 99 } }))).toBe('unknown');
    expect(resultOf(when, evidenceOf({}, { m: { a: 1 } }))).toBe('unknown');
  });
});

it('age holds if a timestamp in seconds is older than the duration', () => {
  const seconds = NOW / 1000;
  const times = evidenceOf({ m: { a: seconds - 60, b: seconds - 61, future: seconds + 99 } });
  expect(resultOf({ age: { metric: 'm', above: '1m' } }, times)).toEqual(holding({ b: 61 }));
});

describe('ratio', () => {
  const when = (more: object = {}) => ({
    ratio: { part: { metric: 'p' }, whole: { metric: 'w' }, over: '1h', above: 0.05, atLeast: 20, ...more },
  });
  const evidence = (part: number, whole: number) =>
    evidenceOf({ p: { a: 5 + part, b: 1 }, w: { a: whole } }, { p: { a: 5, b: 1 }, w: { a: 0 } });
  it('ratio divides the increases of two counters and requires a minimum increase of the total', () => {
    expect(resultOf(when(), evidence(1, 20))).toEqual([]);
    expect(resultOf(when(), evidence(2, 20))).toEqual([{ labels: {}, value: 0.1 }]);
    expect(resultOf(when(), evidence(2, 19))).toEqual([]);
    expect(resultOf(when({ above: 0, atLeast: 1 }), evidence(0, 0))).toEqual([]);
  });
  it('for a series that appears within the window, ratio counts the increase since its first value', () => {
    const late = evidenceOf({ p: { a: 30 }, w: { a: 100 } }, { p: { 'a~': 28 }, w: { a: 80 } });
    expect(resultOf(when(), late)).toEqual([{ labels: {}, value: 0.1 }]);
  });
  it('ratio is unknown if a counter was reset in a gap', () => {
    expect(resultOf(when(), evidenceOf({ p: { a: 4 }, w: { a: 100 } }, { p: { 'a!': 2 }, w: { a: 80 } }))).toEqual([
      { labels: {}, value: 0.1 },
    ]);
    expect(resultOf(when(), evidenceOf({ p: { a: 2 }, w: { a: 100 } }, { p: { 'a!': 4 }, w: { a: 80 } }))).toBe(
      'unknown',
    );
  });
  it('ratio is unknown if one of the counters is unknown', () => {
    expect(resultOf(when(), evidenceOf({ p: { a: 1 } }, { p: {}, w: {} }))).toBe('unknown');
    expect(resultOf(when(), evidenceOf({ w: { a: 1 } }, { p: {}, w: {} }))).toBe('unknown');
    expect(resultOf(when(), evidenceOf({ p: { a: 1 }, w: { a: 1 } }))).toBe('unknown');
  });
});

it('the condition stale holds if the given round of the collector is stale, or any of its rounds if none is given', () => {
  const rounds = evidenceOf({ delivery_collector_data_stale: { new: 1, full: 0 } });
  expect(resultOf({ stale: { collector: 'dlq' } }, rounds)).toEqual(holding({ new: 1 }));
  resultOf({ stale: { collector: 'dlq', round: 'full' } }, rounds);
  expect(rounds.requested).toEqual([
    { metric: 'delivery_collector_data_stale', labels: { collector: ['dlq'] } },
    { metric: 'delivery_collector_data_stale', labels: { collector: ['dlq'], round: ['full'] } },
  ]);
});
