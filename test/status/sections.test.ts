import { describe, expect, it } from 'vitest';
import { BUCKET_BOUNDS, createDestinationTally, createLogTally } from '../../src/collectors/events/tally.ts';
import type { ShownFacts } from '../../src/collectors/index.ts';
import { createRecentChanges } from '../../src/history/recent.ts';
import type { Point } from '../../src/model/history.ts';
import { type CheckedAccount, checkInputOf } from '../../src/rules/checks/account.ts';
import { deadLettersView } from '../../src/status/dead-letters.ts';
import { eventsView } from '../../src/status/events.ts';
import { flowControlView } from '../../src/status/flow-control.ts';
import { isoTime } from '../../src/status/values.ts';
import { calmAccount, checkedAccountOf } from '../support/calm-account.ts';
import { complete, dlqFacts, eventsFacts, flowControlFacts, selection } from '../support/shown-facts.ts';

const NOW = Date.UTC(2026, 0, 1, 12);
const MINUTE = 60_000;

type Series = Readonly<Record<string, readonly (readonly [minutesAgo: number, value: number])[]>>;

/** Returns the points of the series, each recorded the given number of minutes ago. */
const pointsOf =
  (series: Series) =>
  (name: string, over: number): Point[] => {
    const points = (series[name] ?? []).map(([ago, value]) => ({ at: NOW - ago * MINUTE, value }));
    return points.filter(({ at }) => at >= NOW - over - 2 * MINUTE);
  };
const recorded = (series: Series) => createRecentChanges({ recent: pointsOf(series) }, NOW);

/** Returns the view's input of an account with these fresh facts and recorded series. */
function inputOf(shown: ShownFacts, series: Series = {}, more: Partial<CheckedAccount> = {}) {
  const account = checkedAccountOf(calmAccount(), { autoCancel: undefined, recent: pointsOf(series) });
  return checkInputOf({ ...account, now: NOW, serviceNow: NOW, shown, ...more });
}

const HOUR = 60 * MINUTE;

describe('changes', () => {
  it.each([
    ['without recorded points', [], 5, null, null],
    ['with too few recorded points', [[0.5, 3]], 5, null, null],
    ['with an unknown current value', [[60, 3]], undefined, null, null],
    ['of an increase', [[60, 3]], 5, { by: 2, overSeconds: 3600 }, { by: 2, overSeconds: 3600 }],
    [
      'of a decrease, and of a counter reset',
      [
        [60, 8],
        [1, 8],
      ],
      3,
      { by: -5, overSeconds: 3600 },
      { by: 3, overSeconds: 3600 },
    ],
    ['of a counter that was reset in a gap', [[60, 8]], 5, { by: -3, overSeconds: 3600 }, null],
    [
      'of a counter that was reset in between',
      [
        [30, 8],
        [20, 9],
        [10, 1],
      ],
      2,
      { by: -6, overSeconds: 1800 },
      { by: 3, overSeconds: 1800 },
    ],
    [
      'from a point recorded slightly earlier',
      [
        [61.5, 1],
        [1, 9],
      ],
      10,
      { by: 9, overSeconds: 3690 },
      { by: 9, overSeconds: 3690 },
    ],
    ['of zero', [[10, 4]], 4, { by: 0, overSeconds: 600 }, { by: 0, overSeconds: 600 }],
  ] as const)('createRecentChanges computes a change %s', (_, points, now, change, rise) => {
    const recent = recorded({ some_series: points });
    expect(recent.change('some_series', now, HOUR)).toEqual(change);
    expect(recent.rise('some_series', now, HOUR)).toEqual(rise);
  });

  it.each([
    [
      'a process that counted before the window',
      [
        [60, 3],
        [1, 8],
      ],
      9,
      { by: 6, overSeconds: 3600 },
    ],
    [
      'a process that started in a gap',
      [
        [60, 8],
        [20, 1],
      ],
      4,
      { by: 4, overSeconds: 1200 },
    ],
    [
      'the second process since the start of the window',
      [
        [60, 8],
        [40, 1],
        [39, 6],
        [20, 2],
      ],
      4,
      { by: 4, overSeconds: 1200 },
    ],
    ['a process that has no sample yet', [[60, 8]], 5, { by: 5, overSeconds: 0 }],
    ['a process without any earlier samples', [], 5, { by: 0, overSeconds: 0 }],
  ] as const)('riseInProcess counts only increases in %s', (_, points, now, rise) => {
    expect(recorded({ some_total: points }).riseInProcess('some_total', now, HOUR)).toEqual(rise);
  });

  it('a change is null if all recorded points lie in the future because the clock was set back', () => {
    expect(recorded({ some_series: [[-30, 4]] }).change('some_series', 5, HOUR)).toBeNull();
  });
});

describe('last hour of messages', () => {
  const tally = (delivered: number, failed: number, cancelled: number) => ({
    ...createDestinationTally(),
    finished: { delivered, failed, cancelled },
  });
  const log = createLogTally();
  const counts = { 1: 60, 5: 58, 300: 11 };
  for (const [le, count] of Object.entries(counts)) {
    log.timeToDeliver.counts[BUCKET_BOUNDS.timeToDeliver.indexOf(Number(le) as 1)] = count;
  }
  log.timeToDeliver.counts[BUCKET_BOUNDS.timeToDeliver.length] = 1;
  const destinations = new Map(Object.entries({ a: { ...tally(70, 10, 5), redelivered: 6 }, b: tally(60, 2, 0) }));
  const now = complete(eventsFacts({ destinations, log: { ...log, overdue: 3 } }));
  const finished = 'delivery_messages_finished_total';
  const bucket = 'delivery_message_time_to_deliver_seconds_bucket';
  const before = {
    [`${finished}{outcome="delivered"}`]: [[30, 40]],
    [`${finished}{outcome="failed"}`]: [[30, 2]],
    [`${finished}{outcome="cancelled"}`]: [[30, 5]],
    delivery_messages_redelivered_total: [[30, 4]],
    delivery_messages_overdue_total: [[30, 1]],
    [`${bucket}{le="1.0"}`]: [[30, 10]],
    [`${bucket}{le="5.0"}`]: [[30, 38]],
    [`${bucket}{le="300.0"}`]: [[30, 40]],
    [`${bucket}{le="+Inf"}`]: [[30, 40]],
  } as const;

  it('the last hour is computed from recorded points of all destinations and states their actual time span', () => {
    expect(eventsView(inputOf({ events: now }, before)).lastHour).toEqual({
      overSeconds: 1800,
      delivered: 90,
      failed: 10,
      cancelled: 0,
      overdue: 2,
      redelivered: 2,
      deliveredRatio: 0.9,
      timeToDeliver: [
        { quantile: 0.5, atMostSeconds: 1 },
        { quantile: 0.9, atMostSeconds: 300 },
        { quantile: 0.99, atMostSeconds: null },
      ],
    });
  });

  it('the last hour has no ratio or quantiles if no message ended, and is null without recorded points', () => {
    const idle = {
      ...before,
      [`${finished}{outcome="delivered"}`]: [[30, 130]],
      [`${finished}{outcome="failed"}`]: [[30, 12]],
      [`${bucket}{le="1.0"}`]: [[30, 60]],
      [`${bucket}{le="5.0"}`]: [[30, 118]],
      [`${bucket}{le="300.0"}`]: [[30, 129]],
      [`${bucket}{le="+Inf"}`]: [[30, 130]],
    } as const;
    expect(eventsView(inputOf({ events: now }, idle)).lastHour).toMatchObject({
      delivered: 0,
      deliveredRatio: null,
      timeToDeliver: [],
    });
    expect(eventsView(inputOf({ events: now })).lastHour).toBeNull();
  });
});

describe('waitlists', () => {
  const facts = flowControlFacts({
    keys: 4,
    shown: [
      {
        key: 'shrinks',
        waitlistSize: 60,
        drainsIn: 90_100,
        parallelismLimit: 10,
        parallelismInUse: 4,
        rateLimit: 100,
        rateUsed: 90,
      },
      { key: 'grows', waitlistSize: 60, paused: true, parallelismLimit: 0, parallelismInUse: 0 },
      { key: 'empty', waitlistSize: 0 },
    ],
    beyondCap: 7,
    beyondCapWaiting: 500,
    parallelism: { limit: 200, inUse: 63 },
  });
  const size = 'delivery_flow_control_waitlist_size';
  const sizes = {
    [`${size}{flow_control_key="shrinks"}`]: [[15, 90]],
    [`${size}{flow_control_key="grows"}`]: [[15, 10]],
    [`${size}{flow_control_key="empty"}`]: [[15, 10]],
  } as const;

  it('the time to drain a waitlist is the collector’s estimate, and the change covers the last 15 minutes', () => {
    const { rows, ...whole } = flowControlView(inputOf({ flow_control: complete(facts) }, sizes));
    expect(whole).toEqual({
      enabled: true,
      data: 'fresh',
      keys: 4,
      waiting: 620,
      beyondCap: 7,
      beyondCapWaiting: 500,
      parallelismLimit: 200,
      parallelismInUse: 63,
    });
    expect(
      rows.map(({ key, change, drainSeconds, saturation, paused }) => ({
        key,
        by: change?.by,
        drainSeconds,
        saturation,
        paused,
      })),
    ).toEqual([
      { key: 'grows', by: 50, drainSeconds: null, saturation: null, paused: true },
      { key: 'shrinks', by: -30, drainSeconds: 90, saturation: 0.9, paused: null },
      { key: 'empty', by: -10, drainSeconds: null, saturation: null, paused: null },
    ]);
  });

  it('only the hundred largest waitlists have a row', () => {
    const many = Array.from({ length: 150 }, (_, index) => ({ key: `key-${index}`, waitlistSize: index }));
    const { rows, waiting } = flowControlView(
      inputOf({ flow_control: complete(flowControlFacts({ keys: 150, shown: many })) }),
    );
    expect([rows.length, rows[0]?.key, rows.at(-1)?.key, waiting]).toEqual([100, 'key-149', 'key-50', 11_175]);
  });
});

describe('dead-letter numbers', () => {
  it('dead letters are counted per value and sorted by count, with the remainder last', () => {
    const byHost = new Map(Object.entries({ b: 5, __other__: 20, a: 5 }));
    const facts = dlqFacts({
      selections: new Map([['all', selection({ messages: 30, oldestEntered: 1_767_268_800_123 })]]),
      breakdowns: new Map([
        ['queue', new Map()],
        ['urlHost', byHost],
      ]),
      beyondCap: new Map([
        ['queue', 0],
        ['urlHost', 3],
      ]),
    });
    const { settings } = calmAccount();
    const hour = { settings: { ...settings, retention: { dlq: HOUR, events: null } } };
    const view = deadLettersView(inputOf({ dlq: complete(facts) }, { delivery_dlq_messages: [[20, 10]] }, hour));
    expect(view.breakdowns).toEqual([
      {
        dimension: 'urlHost',
        values: [
          { value: 'a', messages: 5 },
          { value: 'b', messages: 5 },
          { value: '__other__', messages: 20 },
        ],
        beyondCap: 3,
      },
      { dimension: 'queue', values: [], beyondCap: 0 },
    ]);
    expect(view).toMatchObject({
      change: { by: 20, overSeconds: 1200 },
      oldestEntered: '2026-01-01T12:00:00.123Z',
      nextExpiry: '2026-01-01T13:00:00.123Z',
      most: null,
    });
  });

  it.each([
    [8.64e15, null],
    [-1e14, null],
    [Number.NaN, null],
    [undefined, null],
    [0, '1970-01-01T00:00:00.000Z'],
    [253_402_300_799_000, '9999-12-31T23:59:59.000Z'],
  ])('isoTime formats a time as ISO text, or null if it is out of range: %s', (ms, text) => {
    expect(isoTime(ms)).toBe(text);
  });
});
