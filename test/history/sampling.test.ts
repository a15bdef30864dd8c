import { expect, it } from 'vitest';
import { sampleOf } from '../../src/history/sampling.ts';
import { counter, type Family, gauge, histogram, type Sample } from '../../src/metrics/family.ts';

const waiting = gauge('waiting', '', ['key']);
const inUse = gauge('in_use', '', ['key']);
const events = counter('events_total', '', ['state', 'destination']);
const wait = histogram('wait_seconds', '', ['destination']);
const requests = counter('requests_total', '', ['endpoint', 'outcome']);
const empty = gauge('empty', '');

const samples = new Map<Family, readonly Sample[]>([
  [waiting, [1, 5, 3].map((value, index) => ({ labels: { key: `k${index}` }, value }))],
  [inUse, [7, 8, 9].map((value, index) => ({ labels: { key: `k${index}` }, value }))],
  [
    events,
    [
      { labels: { state: 'ok', destination: 'a' }, value: 2 },
      { labels: { state: 'ok', destination: 'b' }, value: 3 },
      { labels: { state: 'bad', destination: undefined }, value: 4 },
    ],
  ],
  [
    wait,
    ['a', 'b'].flatMap((destination): Sample[] => [
      { labels: { destination, le: '1.0' }, value: 1, suffix: '_bucket' },
      { labels: { destination, le: '+Inf' }, value: 2, suffix: '_bucket' },
      { labels: { destination }, value: 1.5, suffix: '_sum' },
      { labels: { destination }, value: 2, suffix: '_count' },
    ]),
  ],
  [requests, ['x', 'y'].map(endpoint => ({ labels: { endpoint, outcome: 'ok' }, value: 10 }))],
  [empty, []],
]);

it('a sample contains the sum of a family, its largest series, and the series of related families with the same key', () => {
  const recorded = [
    { family: waiting, sum: true, largest: 2, along: [inUse] },
    { family: events },
    { family: wait },
    { family: requests, without: ['endpoint'] },
    { family: empty, sum: true },
  ];
  const sources = [...samples].map(([family, each]) => ({
    families: [family],
    revision: () => 0,
    samples: () => new Map([[family.name, each]]),
  }));
  expect(Object.fromEntries(sampleOf(recorded, sources))).toEqual({
    waiting: 9,
    'waiting{key="k1"}': 5,
    'waiting{key="k2"}': 3,
    'in_use{key="k1"}': 8,
    'in_use{key="k2"}': 9,
    'events_total{state="ok"}': 5,
    'events_total{state="bad"}': 4,
    'wait_seconds_bucket{le="1.0"}': 2,
    'wait_seconds_bucket{le="+Inf"}': 4,
    wait_seconds_sum: 3,
    wait_seconds_count: 4,
    'requests_total{outcome="ok"}': 20,
  });
});
