import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { alertCases } from './cases/index.ts';
import { caughtUpAfter } from './course.ts';
import { asJobs, fires, neverFired, type RuleTest, replica, testRules } from './promtool.ts';
import { alertNamed, HOUR, sceneOf } from './scene.ts';

/** Cases of alerts on the event log, except those with multi-day windows. */
const ofLog = alertCases.filter(({ alert, step }) => alertNamed(alert).collector === 'events' && step === undefined);

/** Time that the next agent takes to read the log completely (minutes). */
const CATCHING_UP = 15;

const tests = ofLog.flatMap((each): RuleTest[] => {
  const { alert, at, fires: cause, idle, below } = each;
  const { withHealth } = sceneOf(each);
  const end = at + 4;
  const back = end + 4;
  const quiet = Object.entries({ 'at rest': idle, ...below });
  return [
    {
      name: `${alert} keeps firing`,
      input: replica(caughtUpAfter(withHealth(cause), { from: end, back, caughtUp: back + CATCHING_UP })),
      minutes: back + HOUR - 10,
      queries: [4, 8, CATCHING_UP - 1, CATCHING_UP, CATCHING_UP + 4, CATCHING_UP + 20, HOUR - 10].map(minute =>
        fires(alert, back + minute),
      ),
    },
    ...quiet.map(([why, input]) => ({
      name: `${alert} is quiet: ${why}`,
      input: replica(
        caughtUpAfter(withHealth(input), { from: HOUR, back: 2 * HOUR, caughtUp: 2 * HOUR + CATCHING_UP }),
      ),
      minutes: 3 * HOUR + at,
      queries: [neverFired(alert, 3 * HOUR + at)],
    })),
  ];
});

/**
 * Returns a test in which no half-hour has enough overdue messages for the alert to fire. While the agent catches up, it counts
 * the overdue messages of several hours at once.
 */
function fewOverdue(): RuleTest {
  const each = ofLog.find(({ alert }) => alert === 'DeliveryStalled');
  if (!each) throw new Error('there is no such case');
  const input = { ...each.idle, delivery_messages_overdue_total: (minute: number) => Math.floor(minute / 4) };
  const [back, minutes] = [5 * HOUR, 7 * HOUR];
  return {
    name: `${each.alert} is quiet: few overdue messages per half-hour`,
    input: replica(caughtUpAfter(sceneOf(each).withHealth(input), { from: HOUR, back, caughtUp: back + CATCHING_UP })),
    minutes,
    queries: [neverFired(each.alert, minutes)],
  };
}

describe.skipIf(!requireProgram('promtool'))('event log alerts after downtime (promtool test rules)', () => {
  it('event log alerts neither fire nor resolve while counters catch up after agent downtime', () => {
    expect(ofLog.length).toBeGreaterThan(5);
    expect(
      testRules(
        ofLog.map(({ alert }) => alert),
        asJobs([...tests, fewOverdue()]),
      ),
    ).toBe('');
  });
});
