import { expect, it } from 'vitest';
import { dashboardsTemplate } from '../../mixin/dashboards.ts';
import { allGroups, records } from '../../mixin/rules.ts';

const rules = allGroups.flatMap(({ rules }) => rules);
const bytes = (text: string) => Buffer.byteLength(text);

it('no expression of a shipped rule has more than 400 characters', () => {
  const long = rules.filter(({ expr }) => expr.length > 400);
  expect(long.map(({ alert, record, expr }) => `${alert ?? record}: ${expr.length}`)).toEqual([]);
});

it('all expressions of the shipped rules together have at most 20,500 bytes', () => {
  expect(rules.reduce((sum, { expr }) => sum + bytes(expr), 0)).toBeLessThanOrEqual(20_500);
});

it('there are at most 40 recording rules', () => {
  expect(records.length).toBeLessThanOrEqual(40);
});

it('every recording rule is used by another rule or a dashboard', () => {
  const unread = records.filter(
    ({ record }) => !rules.some(({ expr }) => expr.includes(record)) && !dashboardsTemplate.includes(record),
  );
  expect(unread.map(({ record }) => record)).toEqual([]);
});
