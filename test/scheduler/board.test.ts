import { describe, expect, it } from 'vitest';
import { accountStatus, createSlot } from '../../src/scheduler/board.ts';

const MINUTE = 60_000;
const START = Date.UTC(2026, 0, 1);
const slotWith = (every: number, staleness = {}) =>
  createSlot(
    { account: 'a', collector: 'dlq' },
    { full: every },
    { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 30 * MINUTE, ...staleness },
    START,
  );
const succeed = (slot: ReturnType<typeof slotWith>, at: number, facts: unknown = 'facts') =>
  slot.succeeded('full', { at, durationSeconds: 1, facts });
const fail = (slot: ReturnType<typeof slotWith>) =>
  slot.failed('full', { durationSeconds: 1, complete: false, reason: 'server', message: 'status 500' });

describe('board', () => {
  it('shows nothing before the first complete round, and marks that as stale after a while', () => {
    const slot = slotWith(MINUTE);
    expect(slot.visible(START)).toBeUndefined();
    expect(slot.status(START + 3 * MINUTE).rounds[0]).toMatchObject({
      stale: false,
      success: undefined,
      dataAt: undefined,
    });
    expect(slot.status(START + 3 * MINUTE + 1).rounds[0]?.stale).toBe(true);
  });

  it('keeps, marks, then withdraws data that is no longer refreshed, and brings it back', () => {
    const slot = slotWith(MINUTE);
    succeed(slot, START);
    fail(slot);
    const at = (minutes: number) => START + minutes * MINUTE;
    expect([3, 3.01, 20, 20.01].map(minutes => slot.status(at(minutes)).rounds[0]?.stale)).toEqual([
      false,
      true,
      true,
      true,
    ]);
    expect([3, 3.01, 20, 20.01].map(minutes => slot.visible(at(minutes)))).toEqual([
      'facts',
      'facts',
      'facts',
      undefined,
    ]);
    expect(slot.status(at(21)).withdrawn).toBe(true);
    succeed(slot, at(21), 'new');
    expect(slot.visible(at(21))).toBe('new');
    expect(slot.status(at(21)).rounds[0]).toMatchObject({ stale: false, success: true, consecutiveFailures: 0 });
  });

  it('withdraws after withdrawAtMost where that is shorter, but never before it marks', () => {
    const hourly = slotWith(60 * MINUTE);
    succeed(hourly, START);
    expect(hourly.visible(START + 180 * MINUTE)).toBe('facts');
    expect(hourly.visible(START + 180 * MINUTE + 1)).toBeUndefined();
    const quarter = slotWith(5 * MINUTE);
    succeed(quarter, START);
    expect(quarter.visible(START + 30 * MINUTE)).toBe('facts');
    expect(quarter.visible(START + 30 * MINUTE + 1)).toBeUndefined();
  });

  it('does not take a clock that was set back for fresh data', () => {
    const slot = slotWith(MINUTE);
    succeed(slot, START);
    expect(slot.status(START - 4 * MINUTE).rounds[0]?.stale).toBe(true);
    expect(slot.visible(START - 21 * MINUTE)).toBeUndefined();
  });

  it('calls an account up only when the last round of every collector succeeded', () => {
    const [one, two] = [slotWith(MINUTE), slotWith(MINUTE)];
    const up = () => accountStatus('a', [one, two], START).up;
    expect(up()).toBe(false);
    succeed(one, START);
    expect(up()).toBe(false);
    succeed(two, START);
    expect(up()).toBe(true);
    fail(one);
    expect(up()).toBe(false);
  });
});
