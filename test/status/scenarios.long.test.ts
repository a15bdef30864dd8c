import { expect, it } from 'vitest';
import { firstOccurrences, problemCourse, SELDOM } from '../support/problem-course.ts';
import { allOr } from '../support/runs.ts';

it.each([
  ['steady', allOr(360, 60), []],
  ['log-lag', 180, []],
  ['rate-limited', 60, ['warning rate_limited']],
])(
  'the agent reports exactly the expected problems during a long run of the scenario %s at the demo’s intervals',
  async (scenario, minutes, kinds) => {
    const reported = firstOccurrences(await problemCourse(scenario, minutes));
    // The order of concurrent requests decides whether the service also rejects reads of a filter.
    if (scenario === 'rate-limited') reported.delete('warning filter_failing');
    expect([...reported.keys()]).toEqual(kinds);
  },
);

const HOURS = allOr(48, 6);

it(`the agent reports no problem in ${HOURS} hours of the scenario steady`, async () => {
  // Longer intervals limit the duration of the test to minutes.
  const every = { every: '2m' };
  const collect = { flowControl: every, dlq: every, events: every };
  expect([...firstOccurrences(await problemCourse('steady', HOURS * 60, collect)).keys()]).toEqual([]);
});

it('the agent reports stuck callbacks in the scenario stuck-callback after the time required by the demo’s rule', async () => {
  const reported = firstOccurrences(await problemCourse('stuck-callback', 13 * 60, allOr(undefined, SELDOM)));
  expect([...reported.keys()].sort()).toEqual(['warning callbacks_stuck', 'warning dlq_old']);
  expect(reported.get('warning callbacks_stuck')?.text).toMatch(
    /^\d+ failure callbacks? seems? stuck according to the rule app-workflows-hung, the oldest for \d+ h( \d+ min)?\.$/,
  );
});
