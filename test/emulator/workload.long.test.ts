import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { EmulatorState } from '../../src/emulator/state.ts';
import { DLQ_RETENTION_MS, LOG_RETENTION_MS } from '../../src/emulator/world.ts';
import { runs } from '../support/runs.ts';
import { ask, emulator, enteredAt, frozen, HOUR, handClock, NOON } from './emulated.ts';

const everything = (state: EmulatorState) => ({
  dlq: state.dlqRows(),
  events: state.eventRows(),
  waitlists: [...state.waitlists()],
});

describe('clock', () => {
  test('emulated time follows real time at speed 1, is accelerated at speed 60, is frozen at speed 0 and never runs backwards', async () => {
    for (const speed of [0, 1, 60]) {
      const clock = handClock();
      const emulated = await emulator({ clock, speed });
      expect(emulated.clock.now()).toBe(NOON);
      clock.move(90_000);
      expect(emulated.clock.now()).toBe(NOON + speed * 90_000);
      emulated.clock.advance(1000);
      expect(emulated.clock.now()).toBe(NOON + speed * 90_000 + 1000);
      clock.move(-600_000);
      expect(emulated.clock.now()).toBe(NOON + speed * 90_000 + 1000);
    }
  });

  test('an emulator at speed 0 does not change as real time passes', async () => {
    const clock = handClock();
    const emulated = await emulator({ clock });
    const answers = async () =>
      Promise.all(['/v2/dlq', '/v2/events', '/v2/flowControl'].map(path => ask(emulated, path)));
    const before = { ...everything(emulated.state), answers: await answers() };
    clock.move(10 * HOUR);
    expect({ ...everything(emulated.state), answers: await answers() }).toEqual(before);
  });

  test('an emulator at speed 1 changes as real time passes', async () => {
    const clock = handClock();
    const emulated = await emulator({ clock, speed: 1 });
    const before = everything(emulated.state);
    clock.move(10 * 60_000);
    const after = everything(emulated.state);
    expect(after.events.length).toBeGreaterThan(before.events.length + 1000);
    expect(after.dlq).not.toEqual(before.dlq);
    expect(after.waitlists).not.toEqual(before.waitlists);
  });
});

describe('seeds', () => {
  test('the seed determines the complete state', () => {
    expect(everything(frozen({ seed: 5 }).state)).toEqual(everything(frozen({ seed: 5 }).state));
    expect(frozen({ seed: 5 }).state.eventRows()).not.toEqual(frozen({ seed: 6 }).state.eventRows());
    expect(frozen({ seed: 5 }).state.dlqRows()[0]).not.toEqual(frozen({ seed: 6 }).state.dlqRows()[0]);
  });

  test('the seed determines the complete state, regardless of how many requests are made', () => {
    const atOnce = frozen({ seed: 3 });
    atOnce.clock.advance(HOUR / 2);
    const expected = JSON.stringify(everything(atOnce.state));
    const steps = fc.array(fc.integer({ min: 1, max: HOUR / 2 - 1 }), { minLength: 1, maxLength: 60 });
    const property = fc.property(steps, times => {
      const { clock, state } = frozen({ seed: 3 });
      for (const time of [...times.toSorted((a, b) => a - b), HOUR / 2]) {
        clock.advance(NOON + time - clock.now());
        state.waitlists();
      }
      expect(JSON.stringify(everything(state)) === expected).toBe(true);
    });
    fc.assert(property, { numRuns: runs(5) });
  });
});

test('the same dead letters are cleared over days, regardless of how many requests are made', () => {
  const [rarely, often] = [frozen({ seed: 4 }), frozen({ seed: 4 })];
  const first = new Set(often.state.dlqRows().map(row => row.dlqId));
  for (let step = 1; step <= 60; step++) {
    often.clock.advance(HOUR / 2);
    often.state.waitlists();
    if (step % 10 > 0) continue;
    rarely.clock.advance(5 * HOUR);
    expect(JSON.stringify(rarely.state.dlqRows()) === JSON.stringify(often.state.dlqRows())).toBe(true);
  }
  const left = often.state.dlqRows().filter(row => first.has(row.dlqId));
  expect(left.length).toBeLessThan(first.size / 2);
});

describe('history at the start', () => {
  test('the initial history contains about an hour of events, and older dead letters', () => {
    const { state } = frozen();
    const events = state.eventRows();
    expect(events.length).toBeGreaterThan(10_000);
    expect(Number(events[0]?.time)).toBeLessThan(NOON - 0.95 * HOUR);
    expect(Number(events.at(-1)?.time)).toBeGreaterThan(NOON - 60_000);
    expect(events.every(row => Number(row.time) <= NOON && Number(row.time) >= NOON - HOUR)).toBe(true);
    const entered = state.dlqRows().map(enteredAt);
    expect(entered.length).toBeGreaterThan(120);
    expect(entered.length).toBeLessThan(400);
    expect(Math.min(...entered)).toBeLessThan(NOON - 48 * HOUR);
    expect(entered.filter(time => time > NOON - 12 * HOUR).length).toBeGreaterThan(0.4 * entered.length);
    expect(Math.max(...entered)).toBeGreaterThan(NOON - HOUR);
    expect(state.waitlists().size).toBeGreaterThan(3);
  });

  test('the initial history contains the configured number of old dead letters, in order, each with a distinct message', () => {
    const { state } = frozen({ history: 0, dlqEntries: 30_000 });
    const rows = state.dlqRows();
    expect(rows.length).toBe(30_000);
    expect(new Set(rows.map(row => row.messageId)).size).toBe(30_000);
    const entered = rows.map(enteredAt);
    expect(entered).toEqual(entered.toSorted((a, b) => a - b));
    const [old, recent] = [true, false].map(isOld =>
      rows.filter(row => enteredAt(row) < NOON - 12 * HOUR === isOld).map(row => row.url),
    );
    expect(new Set(old).size).toBe(1);
    expect(new Set(recent).size).toBeGreaterThan(5);
    expect(state.eventRows()).toEqual([]);
  });
});

describe('rows over time', () => {
  test('each list contains only rows within its retention', () => {
    const { clock, state } = frozen();
    for (let hour = 0; hour < 8; hour++) {
      clock.advance(HOUR);
      state.waitlists();
    }
    const events = state.eventRows();
    expect(Number(events[0]?.time)).toBeGreaterThanOrEqual(clock.now() - LOG_RETENTION_MS);
    expect(Number(events[0]?.time)).toBeLessThan(clock.now() - LOG_RETENTION_MS + 60_000);
    expect(Math.min(...state.dlqRows().map(enteredAt))).toBeGreaterThanOrEqual(clock.now() - DLQ_RETENTION_MS);
  });

  test('after 40 hours without a request, the event log contains recent messages with all their events', () => {
    // With this seed, a key with parallelism 1 is busy when requests stop.
    const { clock, state } = frozen({ seed: 2 });
    const old = new Set(state.eventRows().map(row => row.messageId));
    clock.advance(40 * HOUR);
    const events = state.eventRows();
    const lives = Map.groupBy(events, row => row.messageId);
    expect(Number(events[0]?.time)).toBeLessThan(clock.now() - LOG_RETENTION_MS + 60_000);
    expect(Number(events.at(-1)?.time)).toBeGreaterThan(clock.now() - 60_000);
    for (const rows of lives.values()) expect(rows[0]?.state).toBe('created');
    expect([...lives.keys()].filter(id => old.has(id))).toEqual([]);
    const started = Map.groupBy(
      events.filter(row => row.state === 'active'),
      row => row.flowControlKey,
    );
    for (const rows of started.values()) {
      expect(Number(rows.at(-1)?.time)).toBeGreaterThan(clock.now() - 2 * HOUR);
    }
    expect(started.size).toBeGreaterThan(5);
  });
});
