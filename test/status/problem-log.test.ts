import { describe, expect, it } from 'vitest';
import { createAgentLog, createProblemLog } from '../../src/status/problem-log.ts';

const MINUTE = 60_000;
const OLD = { kind: 'dlq_old', subject: null } as const;
const GROWING = { kind: 'waitlist_growing', subject: 'a","b' } as const;

/**
 * Returns the minute at which a problem started after checks at these minutes. `isFound`: whether a check found the problem.
 */
function sinceAfter(checks: readonly (readonly [minute: number, isFound: boolean])[], log = createProblemLog(0)) {
  for (const [minute, isFound] of checks) log.saw(isFound ? [OLD] : [], minute * MINUTE);
  const since = log.firstSeen(OLD);
  return since === undefined ? undefined : since / MINUTE;
}

describe('problem start times', () => {
  it('a problem starts at its first sighting', () => {
    expect(
      sinceAfter([
        [1, false],
        [2, true],
        [3, true],
        [4, true],
      ]),
    ).toBe(2);
    expect(createProblemLog(0).firstSeen(OLD)).toBeUndefined();
  });

  it('a problem continues after an absence of up to five minutes', () => {
    expect(
      sinceAfter([
        [1, true],
        [2, false],
        [5, false],
        [6, true],
      ]),
    ).toBe(1);
    expect(
      sinceAfter([
        [1, true],
        [2, false],
        [6, false],
        [7, true],
      ]),
    ).toBe(7);
  });

  it('a problem continues after up to five minutes without checks, and restarts after a longer time', () => {
    expect(
      sinceAfter([
        [1, true],
        [2, true],
        [7, true],
      ]),
    ).toBe(1);
    expect(
      sinceAfter([
        [1, true],
        [2, true],
        [8, true],
      ]),
    ).toBe(8);
  });

  it('a problem restarts if the clock is set back to a time before its first sighting', () => {
    expect(
      sinceAfter([
        [100, true],
        [10, true],
      ]),
    ).toBe(10);
  });

  it('a problem continues in another replica whose clock is slightly behind', () => {
    const [first, later, now] = [2 * MINUTE, 20 * MINUTE, 20 * MINUTE - 3000];
    const before = createProblemLog(0);
    for (const at of [first, ...Array.from({ length: 18 }, (_, n) => (n + 3) * MINUTE)]) before.saw([OLD], at);
    before.saw([OLD, GROWING], later);
    const log = createProblemLog(now, before.stored());
    log.saw([OLD, GROWING], now);
    expect([log.firstSeen(OLD), log.firstSeen(GROWING)]).toEqual([first, now]);
  });

  it('a problem is identified by its kind and its subject', () => {
    const log = createProblemLog(0);
    log.saw([OLD], MINUTE);
    log.saw([OLD, GROWING], 2 * MINUTE);
    expect([OLD, GROWING, { ...GROWING, subject: null }].map(log.firstSeen)).toEqual([MINUTE, 2 * MINUTE, undefined]);
  });

  it('a problem keeps its start time if the agent restarts within five minutes', () => {
    const before = createProblemLog(0);
    expect(before.stored()).toBeUndefined();
    before.saw([OLD, GROWING], MINUTE);
    const restart = (at: number) => {
      const log = createProblemLog(at, JSON.parse(JSON.stringify(before.stored())));
      const known = log.firstSeen(GROWING);
      log.saw([OLD, GROWING], at);
      return [known, log.firstSeen(GROWING)];
    };
    expect(restart(6 * MINUTE)).toEqual([MINUTE, MINUTE]);
    expect(restart(7 * MINUTE)).toEqual([undefined, 7 * MINUTE]);
  });
});

it('the agent log counts the notifications of the last 15 minutes', () => {
  const log = createAgentLog();
  const sent = (count: number) => [{ notifier: 'ops', outcome: 'sent', count }];
  const lately = (value: number, minute: number) => log.lately(sent(value), minute * MINUTE).map(({ count }) => count);
  expect(lately(3, 0)).toEqual([3]);
  for (let minute = 1; minute <= 40; minute += 1) log.saw([], sent(3 + minute), minute * MINUTE);
  expect(lately(43, 40)).toEqual([15]);
  expect(lately(43, 60)).toEqual([0]);
});
