import { expect, it } from 'vitest';
import { createNotificationLog } from '../../src/status/agent.ts';

const MINUTE = 60_000;

it('the notification log counts the notifications of the last 15 minutes', () => {
  const log = createNotificationLog();
  const sent = (count: number) => [{ notifier: 'ops', outcome: 'sent', count }];
  const lately = (value: number, minute: number) => log.lately(sent(value), minute * MINUTE).map(({ count }) => count);
  expect(lately(3, 0)).toEqual([3]);
  for (let minute = 1; minute <= 40; minute += 1) log.saw(sent(3 + minute), minute * MINUTE);
  expect(lately(43, 40)).toEqual([15]);
  expect(lately(43, 60)).toEqual([0]);
});
