import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import type { Input } from './cases/case.ts';
import { allRounds } from './course.ts';
import { fires, isQuiet, neverFired, type RuleTest, replica, testRules } from './promtool.ts';

const [BLIND, UNAVAILABLE] = ['DeliveryBlind', 'DeliveryServiceUnavailable'];
const SECOND = 1 / 60;
/** Minutes between which the service is unavailable. */
const [FROM, TO] = [10, 15];

/** Series of an account with the collectors `reads` during an outage of five minutes. */
function outage(reads: readonly string[]): Input {
  const isFailing = (minute: number) => minute > FROM && minute <= TO;
  const rounds = allRounds.filter(({ collector }) => reads.includes(collector));
  return {
    delivery_up: minute => Number(!isFailing(minute)),
    delivery_token_rejected: () => 0,
    ...Object.fromEntries(
      rounds.flatMap(({ collector, round }) => {
        const labels = `{collector="${collector}",round="${round}"}`;
        // Data is stale after three intervals without a complete round.
        const staleFrom = FROM + (collector === 'dlq' ? 90 : 45) * SECOND;
        return Object.entries({
          data_stale: (minute: number) => Number(minute > staleFrom && minute <= TO),
          data_timestamp_seconds: (minute: number) => 60 * (isFailing(minute) ? FROM : minute),
          data_complete: (minute: number) => Number(!isFailing(minute)),
          success: (minute: number) => Number(!isFailing(minute)),
        }).map(([name, values]) => [`delivery_collector_${name}${labels}`, values] as const);
      }),
    ),
  };
}

const ofAccount = (account: string, input: Input) => replica(input, { instance: 'one:10922', account });
const LOG = outage(['events']);
const real = { step: 0.25, minutes: 30 };

const tests: readonly RuleTest[] = [
  {
    ...real,
    name: 'one account',
    input: ofAccount('a', LOG),
    queries: [neverFired(BLIND, FROM + 1), fires(BLIND, FROM + 2), fires(BLIND, TO), isQuiet(BLIND, TO + 1)],
  },
  {
    ...real,
    name: 'three accounts with the same cause',
    input: Object.assign({}, ...['a', 'b', 'c'].map(account => ofAccount(account, LOG))),
    queries: [
      neverFired(UNAVAILABLE, FROM + 1),
      fires(UNAVAILABLE, FROM + 2),
      fires(UNAVAILABLE, TO),
      isQuiet(UNAVAILABLE, TO + 2),
    ],
  },
  {
    ...real,
    name: 'an outage of one minute',
    input: ofAccount(
      'a',
      Object.fromEntries(
        Object.entries(LOG).map(([series, values]) => [series, m => (m <= FROM + 1 ? values(m) : values(TO + 1))]),
      ),
    ),
    queries: [neverFired(BLIND, 30)],
  },
];

describe.skipIf(!requireProgram('promtool'))('an outage of five minutes, scraped every 15 seconds', () => {
  it.each(tests)('alerts fire and resolve as expected during a short outage: $name', test => {
    expect(testRules([BLIND, UNAVAILABLE], [test])).toBe('');
  });

  it('DeliveryBlind fires once for each unreadable collector', () => {
    const expr = 'count by (collector) (ALERTS{alertname="DeliveryBlind", alertstate="firing"})';
    const expected = ['dlq', 'events'].map(name => ({ labels: `{collector="${name}"}`, value: 1 }));
    const test = {
      ...real,
      name: 'two collectors',
      input: ofAccount('a', outage(['dlq', 'events'])),
      queries: [{ expr, minute: TO, expected }],
    };
    expect(testRules([BLIND], [test])).toBe('');
  });
});
