import { describe, expect, it } from 'vitest';
import { createAgentLog, createProblemLog } from '../../src/status/problem-log.ts';

const MINUTE = 60_000;
const OLD = { kind: 'dlq_old', subject: null } as const;
const GROWING = { kind: 'waitlist_growing', subject: 'a","b' } as const;

/** Since when a problem is there, after it was looked for in these minutes, and seen in some of them. */
function sinceAfter(looks: readonly (readonly [minute: number, isThere: boolean])[], log = createProblemLog(0)) {
  for (const [minute, isThere] of looks) log.saw(isThere ? [OLD] : [], minute * MINUTE);
  const since = log.firstSeen(OLD);
  return since === undefined ? undefined : since / MINUTE;
}

describe('a problem', () => {
  it('is there since it was first seen', () => {
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

  it('that is gone for up to five minutes is the same', () => {
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

  it('is there since at least now where no agent looked for longer than that', () => {
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

  it('starts now if the clock was set back to before it was first seen', () => {
    expect(
      sinceAfter([
        [100, true],
        [10, true],
      ]),
    ).toBe(10);
  });

  it('is the same in another replica, whose clock is a little behind', () => {
    const [first, later, now] = [2 * MINUTE, 20 * MINUTE, 20 * MINUTE - 3000];
    const before = createProblemLog(0);
    for (const at of [first, ...Array.from({ length: 18 }, (_, n) => (n + 3) * MINUTE)]) before.saw([OLD], at);
    before.saw([OLD, GROWING], later);
    const log = createProblemLog(now, before.stored());
    log.saw([OLD, GROWING], now);
    expect([log.firstSeen(OLD), log.firstSeen(GROWING)]).toEqual([first, now]);
  });

  it('is told apart by its subject, whatever that is', () => {
    const log = createProblemLog(0);
    log.saw([OLD], MINUTE);
    log.saw([OLD, GROWING], 2 * MINUTE);
    expect([OLD, GROWING, { ...GROWING, subject: null }].map(log.firstSeen)).toEqual([MINUTE, 2 * MINUTE, undefined]);
  });

  it('is the same after a restart that takes no longer than five minutes', () => {
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

it('notifications are those of the last quarter of an hour', () => {
  const log = createAgentLog();
  const sent = (count: number) => [{ notifier: 'ops', outcome: 'sent', count }];
  const lately = (value: number, minute: number) => log.lately(sent(value), minute * MINUTE).map(({ count }) => count);
  expect(lately(3, 0)).toEqual([3]);
  for (let minute = 1; minute <= 40; minute += 1) log.saw([], sent(3 + minute), minute * MINUTE);
  expect(lately(43, 40)).toEqual([15]);
  expect(lately(43, 60)).toEqual([0]);
});
