import { expect, it } from 'vitest';
import { createErrorBudgets, MINUTE } from '../../src/app/backtest/error-budget.ts';
import { createEvents, events } from '../../src/collectors/events/events.ts';
import { createRandom } from '../../src/emulator/random.ts';
import { DEFAULTS } from '../../src/mixin/rules.ts';
import { requireProgram } from '../support/prometheus.ts';
import { allRounds, health } from './course.ts';
import { fires, isQuiet, type Query, replica, testRules } from './promtool.ts';

const HOUR = 60;
const MINUTES = 10 * HOUR;

interface Totals {
  readonly delivered: number;
  readonly failed: number;
  readonly overdue: number;
}

/** Counters minute by minute: traffic that comes and goes, with times in which messages fail, or are late. */
function drawCourse(): readonly Totals[] {
  const random = createRandom(7);
  const troubles = Array.from({ length: 5 }, () => {
    const from = random.between(0, MINUTES);
    return {
      from,
      to: from + random.between(3, 150),
      share: random.pick([0.03, 0.1, 0.3, 0.9]),
      isLate: random.chance(0.5),
    };
  });
  let totals: Totals = { delivered: 0, failed: 0, overdue: 0 };
  return Array.from({ length: MINUTES + 1 }, (_, minute) => {
    const trouble = troubles.find(({ from, to }) => minute >= from && minute < to);
    const messages = minute % (5 * HOUR) < 4 * HOUR ? random.between(0, 30) : 0;
    const bad = trouble ? Math.round(messages * trouble.share) : random.chance(0.02) ? 1 : 0;
    const failed = trouble && !trouble.isLate ? Math.min(bad, messages) : 0;
    totals = {
      failed: totals.failed + failed,
      overdue: totals.overdue + bad - failed,
      delivered: totals.delivered + messages - failed,
    };
    return totals;
  });
}

/** Facts with nothing but these totals. */
function factsOf({ delivered, failed, overdue }: Totals) {
  const collector = createEvents(events.options.parse({}));
  const facts = collector.recall?.(collector.restore(new Map()));
  if (!facts) throw new Error('no facts');
  const [tally] = facts.destinations.values();
  if (!tally) throw new Error('no destination');
  const finished = { delivered, failed, cancelled: 0 };
  return { ...facts, log: { ...facts.log, overdue }, destinations: new Map([['', { ...tally, finished }]]) };
}

it('judges error budgets as Prometheus does by the shipped rules, at every minute', () => {
  requireProgram('promtool');
  const course = drawCourse();
  // promtool evaluates long windows every minute, too.
  const budgets = createErrorBudgets(DEFAULTS.objectives, 1);
  for (const [minute, totals] of course.entries()) budgets.minute(minute * MINUTE, factsOf(totals));
  const alerts = budgets.alerts();
  const total = (of: keyof Totals) => (minute: number) => course[minute]?.[of] ?? 0;
  const input = {
    ...health(allRounds.filter(({ collector }) => collector === 'events')),
    'delivery_messages_finished_total{outcome="delivered"}': total('delivered'),
    'delivery_messages_finished_total{outcome="failed"}': total('failed'),
    delivery_messages_overdue_total: total('overdue'),
  };
  const queries = alerts.flatMap(({ name, firings }): Query[] => {
    const minutes = firings.map(({ from, to = (MINUTES + 1) * MINUTE }) => [from / MINUTE, to / MINUTE] as const);
    const fired = minutes.reduce((sum, [from, to]) => sum + to - from, 0);
    return [
      ...minutes.flatMap(([from, to]) => [
        isQuiet(name, from - 1),
        fires(name, from),
        fires(name, to - 1),
        ...(to <= MINUTES ? [isQuiet(name, to)] : []),
      ]),
      {
        expr: `sum(count_over_time(ALERTS{alertname="${name}", alertstate="firing"}[${MINUTES + 1}m]))`,
        minute: MINUTES,
        expected: fired === 0 ? [] : [{ labels: '{}', value: fired }],
      },
    ];
  });
  expect(alerts.map(({ firings }) => firings.length).every(count => count > 0)).toBe(true);
  const test = { name: 'backtest', input: replica(input), minutes: MINUTES, queries };
  expect(
    testRules(
      alerts.map(({ name }) => name),
      [test],
    ),
  ).toBe('');
});
