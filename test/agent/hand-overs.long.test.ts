import { expect, it } from 'vitest';
import { handOverAgainAndAgain } from '../support/hand-over-course.ts';

const HAND_OVERS = 100;

it(`counts every event once over ${HAND_OVERS} hand-overs, and leaves nothing open`, async () => {
  const { early, last } = await handOverAgainAndAgain(HAND_OVERS, 4000);
  // A connection or a wait may be there at one moment and not at the other.
  expect(last.timers).toBeLessThanOrEqual((early?.timers ?? 0) + 10);
  expect(last.handles).toBeLessThanOrEqual((early?.handles ?? 0) + 15);
});
