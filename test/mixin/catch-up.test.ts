import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { alertCases } from './cases/index.ts';
import { caughtUpAfter } from './course.ts';
import { asJobs, fires, neverFired, type RuleTest, replica, testRules } from './promtool.ts';
import { alertNamed, HOUR, sceneOf } from './scene.ts';

/** Alerts on the event log whose windows are hours. */
const ofLog = alertCases.filter(({ alert, step }) => alertNamed(alert).collector === 'events' && step === undefined);

/** Minutes from the start of the next agent until it has read the log to its end. */
const CATCHING_UP = 15;

const tests = ofLog.flatMap((each): RuleTest[] => {
  const { alert, at, fires: ill, idle, below } = each;
  const { sees } = sceneOf(each);
  const gone = at + 4;
  const back = gone + 4;
  const well = Object.entries({ 'at rest': idle, ...below });
  return [
    {
      name: `${alert} goes on firing`,
      input: replica(caughtUpAfter(sees(ill), { from: gone, back, shown: back + CATCHING_UP })),
      minutes: back + HOUR,
      queries: [4, 8, CATCHING_UP - 1, CATCHING_UP, CATCHING_UP + 4, CATCHING_UP + 20, HOUR].map(minute =>
        fires(alert, back + minute),
      ),
    },
    ...well.map(([why, input]) => ({
      name: `${alert} is quiet: ${why}`,
      input: replica(caughtUpAfter(sees(input), { from: HOUR, back: 2 * HOUR, shown: 2 * HOUR + CATCHING_UP })),
      minutes: 3 * HOUR + at,
      queries: [neverFired(alert, 3 * HOUR + at)],
    })),
  ];
});

describe.skipIf(!requireProgram('promtool'))('alerts on the event log after a gap, by promtool test rules', () => {
  it('begin and end for nothing while its counters are not shown yet', () => {
    expect(ofLog.length).toBeGreaterThan(5);
    expect(
      testRules(
        ofLog.map(({ alert }) => alert),
        asJobs(tests),
      ),
    ).toBe('');
  });
});
