import { backtestAccount } from '../../../src/app/backtest/account.ts';
import { createJudging } from '../../../src/app/backtest/judging.ts';
import { parseConfig } from '../../../src/config/load.ts';
import { createTestLog, createTestTracer } from '../../support/silent.ts';
import { runLive } from './live.ts';
import { emulateLog, readerOf } from './log.ts';

const START = Date.UTC(2026, 2, 2);
const MINUTE = 60_000;

const total = (state: string) => ({ metric: 'delivery_events_total', labels: { state } });
const finished = (outcome: string[]) => ({ metric: 'delivery_messages_finished_total', labels: { outcome } });

/** What an agent knows as soon as it reads an event. */
const AT_ONCE = [
  { name: 'Errors', when: { growth: { ...total('error'), over: '15m', atLeast: 10 } } },
  {
    name: 'RecentlyFailed',
    when: { above: { metric: 'delivery_events_recent', labels: { state: 'failed' }, value: 2 } },
  },
  {
    name: 'ErrorRatio',
    when: { ratio: { part: total('error'), whole: total('active'), over: '30m', above: 0.2, atLeast: 10 } },
    for: '2m',
    keepFiringFor: '5m',
  },
  { name: 'InFlight', when: { above: { metric: 'delivery_messages_in_flight', value: 5 } }, for: '1m' },
  {
    name: 'OldInFlight',
    when: { age: { metric: 'delivery_oldest_in_flight_timestamp_seconds', above: '2m' } },
    keepFiringFor: '2m',
  },
];
/** What it knows when the log can't be late for it any more: `events.overlap`, or up to a minute more, later. */
const LATER = [
  { name: 'Failures', when: { growth: { ...finished(['failed']), over: '15m', atLeast: 3 } }, keepFiringFor: '5m' },
  {
    name: 'FailureRatio',
    when: {
      ratio: {
        part: finished(['failed']),
        whole: finished(['delivered', 'failed']),
        over: '30m',
        above: 0.1,
        atLeast: 10,
      },
    },
    for: '2m',
  },
  { name: 'Overdue', when: { growth: { metric: 'delivery_messages_overdue_total', over: '1h', atLeast: 5 } } },
];

interface Transition {
  readonly labels: string;
  readonly from: number;
  readonly to: number | undefined;
}

/** Firings of each alert of a live run over an emulated log, and of a backtest over the same. */
export async function compare(length: number, overlap: string) {
  const config = parseConfig(
    JSON.stringify({
      accounts: [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'x', objectives: { onTimeWithin: '2m' } }],
      collect: { dlq: { enabled: false }, flowControl: { enabled: false }, events: { overlap, lateSweep: overlap } },
      alerts: { enabled: true, evaluateEvery: '15s', rules: [...AT_ONCE, ...LATER] },
    }),
    'x.yaml',
  ).config;
  const [settings] = config.accounts as [(typeof config.accounts)[number]];
  const log = emulateLog(START - 10 * MINUTE, length + 10 * MINUTE);
  const range = { from: START, to: START + length };
  const live = await runLive(config, log, range);
  const reader = readerOf(log, () => Number.POSITIVE_INFINITY);
  const result = await backtestAccount(
    {
      config,
      settings,
      at: () => reader,
      log: createTestLog(),
      tracer: createTestTracer(),
      judge: createJudging,
      onProgress: () => undefined,
    },
    range,
    new AbortController().signal,
  );
  const byLabels = (firings: readonly { labels?: object | undefined; from: number; to: number | undefined }[] = []) =>
    firings
      .map(({ labels, from, to }): Transition => ({ labels: JSON.stringify(labels), from, to }))
      .sort((a, b) => (a.labels === b.labels ? a.from - b.from : a.labels < b.labels ? -1 : 1));
  return result.alerts.map(({ name, firings }) => ({
    name,
    live: byLabels(live.get(name)),
    backtest: byLabels(firings),
  }));
}
