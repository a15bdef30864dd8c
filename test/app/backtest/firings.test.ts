import { expect, it } from 'vitest';
import type { AlertResult } from '../../../src/app/backtest/backtest.ts';
import { createFirings, MOST_FIRINGS } from '../../../src/app/backtest/firings.ts';
import { backtestText } from '../../../src/cli/backtest-text.ts';

/** So many firings of a second each, a second apart. */
function firingsOf(count: number) {
  const firings = createFirings();
  for (let index = 0; index < count; index += 1) {
    firings.note('id', { phase: 'firing', startsAt: 2000 * index }, 1);
    firings.note('id', { phase: 'resolved', startsAt: 2000 * index, endsAt: 2000 * index + 1000 }, 0);
  }
  return firings;
}

it('keeps the first 10,000 firings and says how many more there were', () => {
  const most = firingsOf(MOST_FIRINGS);
  expect([most.all().length, most.leftOut()]).toEqual([10_000, 0]);
  const more = firingsOf(MOST_FIRINGS + 3);
  expect([more.all().length, more.leftOut()]).toEqual([10_000, 3]);
});

const resultOf = (count: number): AlertResult => ({
  name: 'Flaps',
  verdict: 'fired',
  because: undefined,
  firings: firingsOf(count).all(),
  firingsLeftOut: firingsOf(count).leftOut(),
  kind: 'above',
  extreme: 1,
  threshold: 0,
  isLeast: false,
  stricter: [{ threshold: 1, fired: 5001 }],
  unknownFor: 0,
});

it('tells of all that fired, and that times are those of the firings that are kept', () => {
  const text = backtestText({
    account: 'production',
    failure: undefined,
    requests: 5,
    result: {
      account: 'production',
      from: 0,
      to: 86_400_000,
      judgedFrom: 0,
      events: 1,
      rejected: 0,
      deadLetters: undefined,
      budgets: [],
      burns: [],
      alerts: [resultOf(MOST_FIRINGS + 2)],
      autoCancel: [],
      autoCancelEntries: { judged: 0, leftOut: 0 },
    },
  });
  expect(text.slice(text.lastIndexOf('\nalert  ') + 1)).toMatchInlineSnapshot(`
    "alert   fired  in all  longest  first began  last ended
    Flaps  10,002   2h46m       1s  01-01 00:00  01-01 05:33
      Flaps: times are those of 10,000 firings, and leave out 2 more
      Flaps: 0 fired 10,002 times; 1 would have fired 5,001 times; even 1 would
        have fired"
  `);
});
