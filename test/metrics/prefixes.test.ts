import { expect, it } from 'vitest';
import { collectors } from '../../src/collectors/index.ts';
import { accountFamilies } from '../../src/metrics/account-families.ts';
import { alertingFamilies } from '../../src/metrics/alerting.ts';
import { autoCancelFamilies } from '../../src/metrics/auto-cancel.ts';
import type { Family, FamilyType } from '../../src/metrics/family.ts';
import { leaderFamilies } from '../../src/metrics/leader.ts';
import { accountInfoFamily } from '../../src/metrics/own.ts';
import { createProcessMetrics } from '../../src/metrics/process.ts';

const agent = createProcessMetrics({ version: '', configHash: '', configLoadedAt: 0, endpoints: [] }).source.families;
const all: readonly Family[] = [
  ...collectors.flatMap(({ families }) => Object.values(families)),
  ...accountFamilies,
  ...Object.values(alertingFamilies),
  ...Object.values(autoCancelFamilies),
  ...Object.values(leaderFamilies),
  accountInfoFamily([]),
  ...agent,
];
const families = new Map(all.map(family => [family.name, family]));

/** Suffixes of the names of a family's samples in OpenMetrics. */
const SUFFIXES: Readonly<Record<FamilyType, readonly string[]>> = {
  gauge: [],
  counter: ['_total', '_created'],
  histogram: ['_bucket', '_sum', '_count', '_created'],
  info: ['_info'],
};

/** Returns the part of a family that responses contain. */
const shownOf = ({ name, type, help, labels }: Family | Partial<Family>) => ({ name, type, help, labels });

it('families of the same name are equal, and no family has the name of another family’s samples', () => {
  for (const family of all) expect(shownOf(family)).toEqual(shownOf(families.get(family.name) ?? {}));
  const names = [...families.values()].flatMap(({ name, type }) => {
    const base = name.replace(/_(total|info)$/, suffix => (SUFFIXES[type].includes(suffix) ? '' : suffix));
    return [base, ...SUFFIXES[type].map(suffix => base + suffix)];
  });
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});

it('names and labels of families are valid', () => {
  const ends: Readonly<Partial<Record<FamilyType, RegExp>>> = { counter: /._total$/, info: /._info$/ };
  const wrong = all.filter(
    ({ name, type, labels }) =>
      !/^[a-z][a-z0-9_]*$/.test(name) ||
      ends[type]?.test(name) === false ||
      new Set(labels).size !== labels.length ||
      labels.some(label => !/^[a-z][a-z0-9_]*$/.test(label) || label === 'account' || label === 'le'),
  );
  expect(wrong.map(({ name }) => name)).toEqual([]);
});

// test/collectors/cases.test.ts checks the prefixes of each collector's families.
it('the name prefix of each family without a collector shows which module owns it', () => {
  const prefixes =
    /^(delivery_(up$|collector_|dlq_|event_|objective_|on_time_|account_|auto_cancel_|problem$|watch_)|process_|nodejs_)/;
  const ofCollectors = new Set(collectors.flatMap(each => Object.values(each.families).map(({ name }) => name)));
  const others = [...families.keys()].filter(name => !ofCollectors.has(name) && !prefixes.test(name));
  expect(others.sort()).toEqual([
    'delivery_lists_missing_total',
    'delivery_rows_rejected_total',
    'delivery_service_clock_skew_seconds',
    'delivery_token_rejected',
  ]);
});
