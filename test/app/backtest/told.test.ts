import { describe, expect, it } from 'vitest';
import { backtestAccount } from '../../../src/app/backtest/account.ts';
import { createJudging } from '../../../src/app/backtest/judging.ts';
import { judgeInThread } from '../../../src/app/backtest/judging-thread.ts';
import { stricterOf } from '../../../src/app/backtest/thresholds.ts';
import { parseConfig } from '../../../src/config/load.ts';
import type { DlqEntry } from '../../../src/model/message.ts';
import { toDlqEntry } from '../../../src/upstream/wire.ts';
import { createTestLog, createTestTracer } from '../../support/silent.ts';
import { emulateLog, readerOf } from './log.ts';

const START = Date.UTC(2026, 2, 2);
const HOUR = 3_600_000;
const MINUTE = 60_000;

const dlq = (more: object) => ({ metric: 'delivery_dlq_messages', ...more });
const finished = { metric: 'delivery_messages_finished_total', labels: { outcome: ['failed'] } };
const RULES = [
  { name: 'Quiet', when: { growth: { ...finished, over: '15m', atLeast: 1000 } } },
  {
    name: 'Some',
    when: { growth: { metric: 'delivery_events_total', labels: { state: 'error' }, over: '30m', atLeast: 4 } },
  },
  { name: 'TwoLetters', when: { above: dlq({ value: 1 }) } },
  { name: 'ManyLetters', when: { above: dlq({ value: 100 }) } },
  { name: 'FewLetters', when: { below: dlq({ value: 100 }) } },
  { name: 'Growing', when: { growth: dlq({ over: '15m', atLeast: 1 }) } },
  { name: 'OldLetter', when: { age: { metric: 'delivery_dlq_oldest_message_timestamp_seconds', above: '2h' } } },
  { name: 'NoNewLetter', when: { age: { metric: 'delivery_dlq_newest_message_timestamp_seconds', above: '1h' } } },
  { name: 'Waiting', when: { above: { metric: 'delivery_flow_control_waitlist_size', value: 0 } } },
  { name: 'LogBehind', when: { age: { metric: 'delivery_event_log_newest_timestamp_seconds', above: '1m' } } },
  { name: 'Down', when: { below: { metric: 'delivery_up', value: 1 } } },
  { name: 'Stale', when: { stale: { collector: 'dlq' } } },
  {
    name: 'InProgress',
    when: { above: { metric: 'delivery_dlq_failure_callbacks', labels: { state: 'in_progress' }, value: 0 } },
  },
];
const FEW = { name: 'Few', when: { growth: { ...finished, over: '15m', atLeast: 1 } } };

function letter(enteredAt: number, more: object = {}): DlqEntry {
  const row = {
    dlqId: `${enteredAt}-0`,
    messageId: `m${enteredAt}`,
    url: 'https://x.example.com',
    createdAt: enteredAt - HOUR,
  };
  const entry = toDlqEntry({ ...row, ...more });
  if (!entry) throw new Error('no entry');
  return entry;
}

const BLIND = {
  name: 'blind',
  match: { url: { prefix: ['https://x'] } },
  evidence: 'blind',
  grace: '0s',
  stuckWhen: { seenFor: '2h', assumeMaxRetries: 0, assumeTimeout: '1m' },
};
const REPORTED = { name: 'reported', match: { url: { prefix: ['https://x'] } } };

/** `begin`: since when the log lists anything. */
async function run(begin: number, entries: readonly DlqEntry[], hours = 6, judge = createJudging) {
  const config = parseConfig(
    JSON.stringify({
      accounts: [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'x' }],
      alerts: { enabled: true, evaluateEvery: '1m', rules: RULES },
      autoCancel: { rules: [BLIND, REPORTED] },
    }),
    'x.yaml',
  ).config;
  const [settings] = config.accounts as [(typeof config.accounts)[number]];
  const reader = readerOf(emulateLog(begin, START + hours * HOUR - begin), () => Number.POSITIVE_INFINITY);
  async function* dlqPages() {
    yield { rows: entries, rejected: 0, isLast: true };
  }
  const at = () => ({ ...reader, dlqPages });
  const common = {
    config,
    settings,
    at,
    log: createTestLog(),
    tracer: createTestTracer(),
    onProgress: () => undefined,
  };
  const range = { from: START, to: START + hours * HOUR };
  return backtestAccount({ ...common, judge }, range, new AbortController().signal);
}

describe('a backtest', () => {
  const entries = [letter(START - HOUR), letter(START + HOUR), letter(START + 2 * HOUR + 1000)];

  it('says what surely fired and surely did not, and of all else that it is unknown, and why', async () => {
    const undated = letter(START, { dlqId: 'undated' });
    const { alerts, deadLetters } = await run(START - HOUR, [...entries, undated]);
    expect(deadLetters).toBe(4);
    const told = new Map(alerts.map(alert => [alert.name, alert]));
    const verdicts = alerts.map(({ name, verdict }) => `${name} ${verdict}`);
    expect(verdicts).toEqual([
      'Quiet quiet',
      'Some fired',
      'TwoLetters fired',
      'ManyLetters unknown',
      'FewLetters unknown',
      'Growing unknown',
      'OldLetter fired',
      ...['NoNewLetter', 'Waiting', 'LogBehind', 'Down', 'Stale', 'InProgress'].map(name => `${name} unknown`),
    ]);
    for (const { name, verdict, because } of alerts) if (verdict === 'unknown') expect(because, name).toMatch(/\w+/);
    // At the latest when the round that came after the second one had seen it.
    expect(told.get('TwoLetters')?.firings).toEqual([
      { labels: {}, from: START + HOUR + MINUTE, to: undefined, most: 3 },
    ]);
    expect(told.get('TwoLetters')?.stricter).toEqual([]);
  });

  it('does not say of a rule that it never fired where rows could not be read', async () => {
    const { alerts } = await run(START - HOUR, [], 6, plan => {
      const judging = createJudging(plan);
      return { ...judging, take: part => judging.take({ ...part, rejected: 1 }) };
    });
    const { verdict, unknownFor, because } = alerts.find(({ name }) => name === 'Quiet') ?? {};
    expect([verdict, unknownFor]).toEqual(['unknown', 6 * HOUR]);
    expect(because).toContain('rows could not be read');
  });

  it('tries less sensitive thresholds of what fired', async () => {
    const { alerts } = await run(START - HOUR, []);
    const { firings = [], stricter = [] } = alerts.find(({ name }) => name === 'Some') ?? {};
    expect(stricter.map(({ threshold }) => threshold)).toEqual([6, 8, 10, 12, 16, 20, 30, 40, 80, 200, 400]);
    const counts = [firings.length, ...stricter.map(({ fired }) => fired)];
    expect(counts[0]).toBeGreaterThan(0);
    expect(counts.at(-1)).toBe(0);
  });

  it('tries each less sensitive threshold once', () => {
    const options = { accounts: [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'x' }], alerts: { rules: [FEW] } };
    const { rules } = parseConfig(JSON.stringify(options), 'x.yaml').config.alerts;
    const tried = rules.map(rule => stricterOf(rule).map(({ threshold }) => threshold));
    expect(tried).toEqual([[2, 3, 4, 5, 8, 10, 20, 50, 100]]);
  });

  it('knows nothing of the time before the log begins, but for dead letters, and nothing of an empty log', async () => {
    const late = await run(START + 3 * HOUR, entries);
    expect(late.judgedFrom).toBeGreaterThanOrEqual(START + 3 * HOUR);
    expect(late.judgedFrom).toBeLessThanOrEqual(START + 3 * HOUR + MINUTE);
    expect(late.alerts.find(({ name }) => name === 'TwoLetters')?.firings[0]?.from).toBe(START + HOUR + MINUTE);
    const empty = await run(START + 7 * HOUR, []);
    expect(empty.judgedFrom).toBeUndefined();
    expect(empty.alerts.filter(({ verdict }) => verdict !== 'unknown')).toEqual([]);
    expect(empty.budgets.map(({ left }) => left)).toEqual([undefined, undefined]);
  });

  it('plans cancels of what has been listed since it came, and says nothing of past states', async () => {
    const running = letter(START + HOUR / 2, { failureFunctionState: 'CALLBACK_INPROGRESS' });
    const { autoCancel } = await run(START - HOUR, [...entries, running]);
    const [blind, reported] = autoCancel;
    expect(blind?.verdict).toBe('would_cancel');
    expect(blind?.planned[0]).toMatchObject({ dlqId: `${START - HOUR}-0`, at: START + 2 * HOUR });
    expect(reported).toMatchObject({ verdict: 'unknown', planned: [], open: 0 });
  });

  it('is the same in a thread of its own', async () => {
    expect(await run(START - HOUR, entries, 2, judgeInThread)).toEqual(await run(START - HOUR, entries, 2));
  });
});
