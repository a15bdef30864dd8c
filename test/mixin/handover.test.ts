import { describe, expect, it } from 'vitest';
import { agentDashboard } from '../../mixin/agent-dashboard.ts';
import { level, rise } from '../../mixin/queries.ts';
import { dlq } from '../../src/collectors/dlq/dlq.ts';
import { events } from '../../src/collectors/events/events.ts';
import { requireProgram } from '../support/prometheus.ts';
import { flat, type Input, rising } from './cases/case.ts';
import { allRounds, health } from './course.ts';
import { handovers } from './handover.ts';
import { type Query, type RuleTest, testRules } from './promtool.ts';

const AT = 30;
const seen: Input = {
  ...health(allRounds.filter(({ collector }) => collector !== 'flow_control')),
  delivery_dlq_messages: flat(7),
  'delivery_messages_finished_total{outcome="delivered"}': rising(60),
  'delivery_messages_finished_total{outcome="failed"}': flat(0),
};

const as = (text: string) => text.replaceAll(/\$(job|instance|account)/g, '.+').replaceAll('$__rate_interval', '4m');
const returns = (expr: string, minute: number, value?: number): Query => ({
  expr: as(expr),
  minute,
  expected: value === undefined ? [] : [{ labels: '{}', value }],
});
const neverAbove = (most: number, expr: string) =>
  [AT - 1, AT, AT + 1, AT + 2, AT + 3, AT + 5, AT + 8, AT + 12, AT + 20].map(minute =>
    returns(`${expr} > ${most}`, minute),
  );
const finished = rise(events.families.finished, '10m', { where: { outcome: 'delivered' } });

const tests = (['released', 'afterKill', 'cutOff', 'probedElsewhere', 'thereAndBack'] as const).map(
  (how): RuleTest => ({
    name: how,
    input: handovers[how](seen, AT),
    minutes: 2 * AT,
    queries: [
      returns(level(dlq.families.messages), AT + 4, 7),
      ...neverAbove(7, level(dlq.families.messages)),
      returns(finished, AT + 20, 600),
      // The first increase after the handover includes the minute without samples.
      ...neverAbove(660, finished),
    ],
  }),
);

const leader = (instance: string) => `delivery_watch_leader{job="delivery-watch",instance="${instance}",schema="a"}`;
const leaders: RuleTest = {
  name: 'leaders',
  input: {
    [leader('one')]: minute => Number(minute < AT),
    [leader('two')]: minute => Number(minute >= AT + 2 && minute < AT + 4),
    [leader('three')]: minute => Number(minute >= AT + 3),
  },
  minutes: 2 * AT,
  queries: [
    [AT - 1, 'one'],
    [AT + 1, ''],
    [AT + 2, 'two'],
    [AT + 3, 'two and three'],
    [AT + 5, 'three'],
  ].map(([minute, holders = '']) => ({
    expr: as(`${leadersExpr()} == 1`),
    minute: Number(minute),
    expected: String(holders)
      .split(' and ')
      .flatMap(instance => (instance === '' ? [] : [{ labels: `{instance="${instance}", schema="a"}`, value: 1 }])),
  })),
};

function leadersExpr(): string {
  const panel = agentDashboard.flatMap(({ panels }) => panels).find(({ title }) => title === 'Leader and standbys');
  const column = panel && 'columns' in panel ? panel.columns.find(({ title }) => title === 'Leads') : undefined;
  if (!column) throw new Error('the panel Leader and standbys has no column Leads');
  return column.expr;
}

describe.skipIf(!requireProgram('promtool'))('panels during a handover (promtool test rules)', () => {
  it('panels count nothing twice and show no spike during a handover', () => {
    expect(testRules(['DeliveryErrorBudgetFastBurn', 'DeliveryDlqGrowing'], tests)).toBe('');
  });

  it('panels show the process that leads during a takeover', () => {
    expect(testRules(['DeliveryTwoLeaders'], [leaders])).toBe('');
  });
});
