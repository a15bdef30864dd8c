import { describe, expect, test } from 'vitest';
import { DLQ_RETENTION_MS } from '../../src/emulator/world.ts';
import { enteredAt, frozen, HOUR, NOON } from './emulated.ts';

describe.each(['steady', 'dlq-growth'])('messages (%s)', scenario => {
  const { clock, state } = frozen({ scenario, history: 2 * HOUR });
  clock.advance(2 * HOUR);
  const events = state.eventRows();
  const byMessage = Map.groupBy(events, row => row.messageId);

  test('messages go through their states in a valid order', () => {
    const letter = {
      created: 'c',
      active: 'a',
      error: 'e',
      retry: 'r',
      delivered: 'd',
      failed: 'f',
      cancel_requested: 'q',
      cancelled: 'x',
    };
    const lives = new Set([...byMessage.values()].map(rows => rows.map(row => letter[row.state]).join('')));
    for (const life of lives) expect(life).toMatch(/^c(aer)*(|a|ad|aef|q|qx)$/);
    for (const life of ['cad', 'caerad', 'caeraeraeraef', 'cqx', 'caerqx']) expect([...lives]).toContain(life);
  });

  test('messages wait for the documented delay before each retry, and are retried at most maxRetries times', () => {
    for (const rows of byMessage.values()) {
      const retries = rows.filter(row => row.state === 'retry');
      const waits = retries.map(row => Number(row.nextDeliveryTime) - Number(row.time));
      expect(waits).toEqual([12_182, 148_413, 1_808_042, 22_026_466, 86_400_000].slice(0, waits.length));
      expect(retries.length).toBeLessThanOrEqual(rows[0]?.maxRetries as number);
      for (const [index, row] of rows.entries()) {
        const next = rows[index + 1];
        if (row.state === 'retry' && next?.state === 'active') {
          expect(Number(next.time)).toBeGreaterThanOrEqual(Number(row.nextDeliveryTime));
        }
      }
    }
  });

  test('messages stay within the parallelism and rate of their flow-control key', () => {
    const running = new Map<string, number>();
    const most = new Map<string, number>();
    const started = Map.groupBy(
      events.filter(row => row.state === 'active' && row.rate !== undefined),
      row => row.flowControlKey as string,
    );
    for (const row of events) {
      const key = row.flowControlKey;
      if (key === undefined) continue;
      const change = row.state === 'active' ? 1 : row.state === 'delivered' || row.state === 'error' ? -1 : 0;
      const now = (running.get(key) ?? 0) + change;
      running.set(key, now);
      most.set(key, Math.max(most.get(key) ?? 0, now));
      if (row.parallelism !== undefined) expect(now).toBeLessThanOrEqual(row.parallelism);
    }
    expect(most.get('mail/send')).toBe(2);
    expect(started.size).toBeGreaterThan(1);
    for (const rows of started.values()) {
      const { rate = 0, period = 0 } = rows[0] ?? {};
      for (const [index, row] of rows.entries()) {
        const later = rows[index + rate];
        if (later) expect(Number(later.time) - Number(row.time)).toBeGreaterThanOrEqual(period * 1000);
      }
    }
  });
});

describe('dead-letter queue', () => {
  test('each failed message is a dead letter from the millisecond of its failure until its retention expires', () => {
    const { clock, state } = frozen({ scenario: 'dlq-growth' });
    clock.advance(HOUR);
    const failed = state.eventRows().filter(row => row.state === 'failed');
    const entered = () => new Map(state.dlqRows().map(row => [row.messageId, enteredAt(row)]));
    const before = entered();
    expect(failed.length).toBeGreaterThan(100);
    for (const row of failed) expect(before.get(row.messageId)).toBe(Number(row.time));
    const sinceThen = state.dlqRows().filter(row => enteredAt(row) >= NOON - HOUR && !row.workflowRunId);
    expect(sinceThen.length).toBe(failed.length);
    const first = failed[0];
    clock.advance(Number(first?.time) + DLQ_RETENTION_MS - clock.now());
    expect(entered().has(first?.messageId as string)).toBe(true);
    clock.advance(1);
    expect(entered().has(first?.messageId as string)).toBe(false);
  });

  test('dead letters are cleared over time, except neglected ones and those added by a test', () => {
    const { clock, state } = frozen();
    const added = state.addDlqEntry();
    const before = state.dlqRows();
    clock.advance(5 * HOUR);
    const left = new Set(state.dlqRows().map(row => row.dlqId));
    const old = (row: { dlqId: string }) => enteredAt(row) < clock.now() - DLQ_RETENTION_MS;
    const cleared = before.filter(row => !left.has(row.dlqId) && !old(row));
    expect(cleared.length).toBeGreaterThan(20);
    expect(cleared.filter(row => row.queueName === 'legacy')).toEqual([]);
    expect(left.has(added)).toBe(true);
  });

  test('the number of dead letters grows ever faster in the scenario dlq-growth and remains steady in the scenario neglected', () => {
    const sizes = (scenario: string) => {
      const { clock, state } = frozen({ scenario });
      return [0, 1, 1].map(hours => {
        clock.advance(hours * HOUR);
        return state.countDlq();
      }) as [number, number, number];
    };
    const [first, second, third] = sizes('dlq-growth');
    expect(second - first).toBeGreaterThan(100);
    expect(third - second).toBeGreaterThan(1.3 * (second - first));
    for (const size of sizes('neglected')) expect(Math.abs(size - 200)).toBeLessThan(120);
  });
});

test('waitlists grow and shrink but are never negative, and keys that are idle for a long time disappear', () => {
  const { clock, state } = frozen();
  const series: Map<string, number>[] = [];
  for (let step = 0; step < 720; step++) {
    clock.advance(10_000);
    series.push(state.waitlists());
  }
  const keys = new Set(series.flatMap(sizes => [...sizes.keys()]));
  expect([...keys].some(key => /[^\p{ASCII}]/u.test(key))).toBe(true);
  for (const character of ['/', ' ', '"', '\\', '{']) expect([...keys].some(key => key.includes(character))).toBe(true);
  const moving = [...keys].filter(key => {
    const sizes = series.map(each => each.get(key) ?? 0);
    for (const size of sizes) expect(Number.isInteger(size) && size >= 0).toBe(true);
    const steps = sizes.slice(1).map((size, index) => size - (sizes[index] as number));
    return steps.some(step => step > 0) && steps.some(step => step < 0) && sizes.includes(0);
  });
  expect(moving.length).toBeGreaterThan(3);
  const seen = [...keys].map(key => series.filter(sizes => sizes.has(key)).length);
  expect(seen.some(times => times > 0 && times < series.length)).toBe(true);
});
