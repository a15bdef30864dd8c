import { expect, it } from 'vitest';
import { firstSaid, problemCourse } from '../support/problem-course.ts';

it.each([
  ['steady', 360, []],
  ['log-lag', 180, ['info event_log_behind']],
  ['rate-limited', 60, ['warning rate_limited']],
])(
  'reports only the expected problems of the scenario %s for hours, at the demo’s intervals',
  async (scenario, minutes, kinds) => {
    const said = firstSaid(await problemCourse(scenario, minutes));
    // The order of concurrent requests decides whether the service also rejects reads of a filter.
    if (scenario === 'rate-limited') said.delete('warning filter_failing');
    expect([...said.keys()]).toEqual(kinds);
  },
);

it('reports stuck callbacks in the scenario stuck-callback after the time required by the demo’s rule', async () => {
  const said = firstSaid(await problemCourse('stuck-callback', 13 * 60));
  expect([...said.keys()].sort()).toEqual(['warning callbacks_stuck', 'warning dlq_old']);
  expect(said.get('warning callbacks_stuck')?.text).toMatch(
    /^\d+ failure callbacks? seems? stuck by the rule app-workflows-hung, the oldest for \d+ h( \d+ min)?\.$/,
  );
});
