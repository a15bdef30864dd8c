import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AlertState, advance, type Durations, type Evaluation, withoutClock } from '../../src/rules/state.ts';
import { runs } from '../support/runs.ts';

const SECOND = 1000;
const MINUTE = 60_000;
const START = Date.UTC(2026, 5, 1);

type Holds = Evaluation['holds'];

/** Returns the phases after evaluations at intervals of one second. */
function phases(durations: Durations, all: readonly Holds[]): string {
  let state: AlertState | undefined;
  return all
    .map((holds, index) => {
      state = advance(state, durations, { holds, now: START + index * SECOND, monotonic: index * SECOND });
      return state?.phase ?? 'inactive';
    })
    .join(' ');
}

const T = true;
const F = false;
const U = 'unknown';

describe('alert states', () => {
  it('an alert without `for` fires immediately; an alert with `for` fires once its condition has held for that time', () => {
    expect(phases({ for: 0, keepFiringFor: 0 }, [F, T, F])).toBe('inactive firing resolved');
    expect(phases({ for: 2000, keepFiringFor: 0 }, [T, T, T, T])).toBe('pending pending firing firing');
    expect(phases({ for: 2000, keepFiringFor: 0 }, [T, T, F, T, T])).toBe('pending pending inactive pending pending');
  });

  it('an alert keeps firing for keepFiringFor, which restarts whenever the condition holds again', () => {
    expect(phases({ for: 0, keepFiringFor: 2000 }, [T, F, F, F])).toBe('firing firing firing resolved');
    expect(phases({ for: 0, keepFiringFor: 2000 }, [T, F, F, T, F, F, F])).toBe(
      'firing firing firing firing firing firing resolved',
    );
  });

  it('an alert neither fires nor resolves while its condition is unknown', () => {
    expect(phases({ for: 2000, keepFiringFor: 0 }, [T, U, U, U, T, T, T])).toBe(
      'pending pending pending pending pending pending firing',
    );
    expect(phases({ for: 0, keepFiringFor: 2000 }, [T, F, U, U, U, F, F, F])).toBe(
      'firing firing firing firing firing firing firing resolved',
    );
    expect(phases({ for: 0, keepFiringFor: 0 }, [U, U, T, U])).toBe('inactive inactive firing firing');
  });

  it('an episode whose reported start is in the future starts at its first evaluation, even if the alert fires later', () => {
    const durations = { for: SECOND, keepFiringFor: 0 };
    const at = (now: number, state?: AlertState) =>
      advance(state, durations, { holds: T, since: START + MINUTE, now: START + now, monotonic: now });
    expect(at(SECOND, at(0))).toEqual({ phase: 'firing', startsAt: START, firedAt: START + SECOND });
  });

  it('a resolved alert is kept for 15 minutes, or until its condition holds again', () => {
    const durations = { for: SECOND, keepFiringFor: 0 };
    const resolved: AlertState = { phase: 'resolved', startsAt: START, endsAt: START + MINUTE };
    const at = (now: number, holds: Holds) => advance(resolved, durations, { holds, now: START + now, monotonic: 0 });
    expect(at(16 * MINUTE - 1, F)).toBe(resolved);
    expect(at(16 * MINUTE - 1, U)).toBe(resolved);
    expect(at(16 * MINUTE, F)).toBeUndefined();
    expect(at(-15 * MINUTE, F)).toBeUndefined();
    expect(at(2 * MINUTE, T)).toEqual({
      phase: 'pending',
      startsAt: START + 2 * MINUTE,
      heldFor: 0,
      seenAt: 0,
    });
  });

  it('an alert never ends before its start, even if the clock is changed', () => {
    const firing: AlertState = { phase: 'firing', startsAt: START, firedAt: START };
    expect(advance(firing, { for: 0, keepFiringFor: 0 }, { holds: F, now: START - MINUTE, monotonic: 0 })).toEqual({
      phase: 'resolved',
      startsAt: START,
      endsAt: START,
    });
  });
});

/**
 * Sequences of evaluations, each with its result, the time since the previous evaluation, and the wall-clock step and restart
 * that precede it.
 */
const steps = fc.array(
  fc.record({
    holds: fc.constantFrom<Holds>(T, T, T, T, F, F, U),
    after: fc.integer({ min: 1, max: 20 }).map(seconds => seconds * SECOND),
    clockStep: fc.oneof({ arbitrary: fc.constant(0), weight: 9 }, fc.integer({ min: -MINUTE, max: MINUTE })),
    isRestarted: fc.nat({ max: 7 }).map(chance => chance === 0),
  }),
  { maxLength: 60 },
);
const durations = fc.record({
  for: fc.integer({ min: 0, max: 60 }).map(seconds => seconds * SECOND),
  keepFiringFor: fc.integer({ min: 0, max: 60 }).map(seconds => seconds * SECOND),
});

it('an alert fires once its condition has held for `for` and resolves once it has been false for keepFiringFor, even across restarts', () => {
  let fired = 0;
  fc.assert(
    fc.property(durations, steps, (durations, steps) => {
      let state: AlertState | undefined;
      let [monotonic, offset] = [0, START];
      let last: Holds | 'restart' = 'restart';
      // Expected durations of true and of false results. Unknown results and restarts add no time.
      let [held, cleared] = [0, 0];
      for (const { holds, after, clockStep, isRestarted } of steps) {
        if (isRestarted) {
          if (state) state = JSON.parse(JSON.stringify(withoutClock(state))) as AlertState;
          // A new process has a new monotonic clock.
          monotonic = 0;
          last = 'restart';
        }
        monotonic += after;
        offset += clockStep;
        const before = state;
        if (holds === true) [held, cleared] = [last === true ? held + after : held, 0];
        if (holds === false) [held, cleared] = [0, last === false ? cleared + after : cleared];
        state = advance(state, durations, { holds, now: offset + monotonic, monotonic });
        last = holds;
        if (holds === 'unknown' && before?.phase !== 'resolved') expect(state?.phase).toBe(before?.phase);
        if (before?.phase !== 'firing' && state?.phase === 'firing') {
          fired += 1;
          expect(holds).toBe(true);
          expect(held).toBeGreaterThanOrEqual(durations.for);
        }
        if (before?.phase !== 'firing' && holds === true && held >= durations.for) expect(state?.phase).toBe('firing');
        if (before?.phase === 'firing') {
          expect(state?.phase === 'resolved').toBe(holds === false && cleared >= durations.keepFiringFor);
          expect(state && 'startsAt' in state && state.startsAt).toBe(before.startsAt);
        }
      }
    }),
    { numRuns: runs(500) },
  );
  expect(fired).toBeGreaterThan(20);
});
