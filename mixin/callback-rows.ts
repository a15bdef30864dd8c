import { dlq } from '../src/collectors/dlq/dlq.ts';
import { autoCancelFamilies } from '../src/metrics/auto-cancel.ts';
import { highestOf, lowestOf } from '../src/rules/promql.ts';
import { ofSeries } from './dashboard-links.ts';
import { STOPPED } from './palette.ts';
import { each, type PanelSpec, type RowSpec } from './panel.ts';
import { ACCOUNT_LEGEND, age, chosen, highestTen, inHours, level, lowestTen, PER_TEN, rise } from './queries.ts';

const { callbacks, suspected, oldestInProgress } = dlq.families;
const { candidates, actions, skipped, breakerOpen, paused, oldestUnresolved, budgetRemaining, ruleBudgetRemaining } =
  autoCancelFamilies;

const account = { keep: ['account'] } as const;
const RULE = `${ACCOUNT_LEGEND} {{rule}}`;

const failureCallbacks: readonly PanelSpec[] = [
  {
    kind: 'stack',
    title: 'Failure callbacks by state',
    description: 'Did failure callbacks succeed, fail, or are they in progress? Only where the service reports it.',
    queries: each('{{state}}', level(callbacks, { keep: ['state'] })),
    noValue: 'not reported by the service',
    width: 24,
  },
  {
    title: 'Suspected stuck',
    description: `How many failure callbacks have been in progress for longer than all their retries can take? ${PER_TEN}`,
    queries: each(ACCOUNT_LEGEND, highestTen(level(suspected, account))),
    hasManyLines: true,
    links: ofSeries('dlq'),
    noValue: 'not reported by the service',
  },
  {
    title: 'Longest in progress',
    description: `How long has the longest-running failure callback been in progress, as seen by the agent? ${PER_TEN}`,
    unit: 'hours',
    queries: each(ACCOUNT_LEGEND, highestTen(inHours(age(oldestInProgress)))),
    hasManyLines: true,
    links: ofSeries('dlq'),
    noValue: 'none is in progress, or not reported by the service',
  },
];

const NOT_ON = 'autoCancel.mode is off, or no such thing happened';

const autoCancel: readonly PanelSpec[] = [
  {
    title: 'Candidates',
    description: `How many failure callbacks does each rule call stuck? ${PER_TEN}`,
    queries: each(RULE, highestTen(level(candidates, { keep: ['account', 'rule'] }))),
    hasManyLines: true,
    noValue: NOT_ON,
  },
  {
    kind: 'stack',
    title: 'Actions by outcome',
    description: 'How many actions ended in each interval, and how? planned: would have been cancelled.',
    queries: each('{{mode}} {{outcome}}', rise(actions, '$__rate_interval', { keep: ['mode', 'outcome'] })),
    hasManyLines: true,
    noValue: NOT_ON,
  },
  {
    kind: 'stack',
    title: 'Skipped, by reason',
    description: 'Why were failure callbacks that a rule matches not cancelled? Counted in each interval.',
    queries: each('{{reason}}', highestTen(rise(skipped, '$__rate_interval', { keep: ['reason'] }))),
    hasManyLines: true,
    noValue: NOT_ON,
  },
  {
    title: 'Cancels left',
    description:
      'How many cancels do the hourly and daily limits still allow, per account and per rule? The ten with the least.',
    queries: [
      { legend: ACCOUNT_LEGEND, expr: lowestTen(lowestOf(chosen(budgetRemaining))) },
      { legend: RULE, expr: lowestTen(lowestOf(chosen(ruleBudgetRemaining), ['rule'])) },
    ],
    hasManyLines: true,
    noValue: NOT_ON,
  },
  {
    kind: 'states',
    title: 'Breakers and pauses',
    description: 'Is a breaker open, or auto-cancel paused? While one is, nothing is cancelled.',
    words: STOPPED,
    queries: [
      {
        legend: `${ACCOUNT_LEGEND} breaker {{breaker}}`,
        expr: highestTen(highestOf(chosen(breakerOpen), ['breaker']), 'avg'),
      },
      { legend: `${ACCOUNT_LEGEND} pause`, expr: highestTen(highestOf(chosen(paused)), 'avg') },
    ],
    noValue: 'autoCancel.mode is off',
  },
  {
    title: 'Oldest unresolved cancel',
    description: `How long has the outcome of the oldest unresolved cancel been unknown? Empty if there is none. ${PER_TEN}`,
    unit: 'hours',
    queries: each(RULE, highestTen(inHours(age(oldestUnresolved, ['rule'])))),
    hasManyLines: true,
    noValue: 'no cancel is unresolved',
  },
];

/** Failure callbacks and auto-cancel. */
export const callbackRows: readonly RowSpec[] = [
  { title: 'Failure callbacks', isCollapsed: true, panels: failureCallbacks },
  { title: 'Auto-cancel', isCollapsed: true, panels: autoCancel },
];
