import { expect, it } from 'vitest';
import { handOverAgainAndAgain } from '../support/hand-over-course.ts';

const HAND_OVERS = 100;

it(`counts every event exactly once over ${HAND_OVERS} handovers, and leaks no handles`, async () => {
  const { early, last } = await handOverAgainAndAgain(HAND_OVERS, 4000);
  // The number of connections and timers varies.
  expect(last.timers).toBeLessThanOrEqual((early?.timers ?? 0) + 10);
  expect(last.handles).toBeLessThanOrEqual((early?.handles ?? 0) + 15);
});
