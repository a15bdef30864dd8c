import { expect, it } from 'vitest';
import { accountPlan, collectors } from '../../src/collectors/index.ts';
import { alertingFamilies } from '../../src/metrics/alerting.ts';
import { autoCancelFamilies } from '../../src/metrics/auto-cancel.ts';
import type { Family } from '../../src/metrics/family.ts';
import { objectiveFamilies } from '../../src/metrics/objectives.ts';
import { accountInfoFamily, ownFamilies } from '../../src/metrics/own.ts';
import { createProcessMetrics } from '../../src/metrics/process.ts';
import { pushFamilies } from '../../src/metrics/push.ts';
import { replicaFamilies } from '../../src/metrics/replicas.ts';
import { ucumUnitOf } from '../../src/push/otlp-metrics.ts';

const { source } = createProcessMetrics({ version: '', configHash: '', configLoadedAt: 0, endpoints: [] });

const families: readonly Family[] = [
  ...collectors.flatMap(({ families }) => Object.values(families)),
  ...Object.values(accountPlan.families),
  ...Object.values(ownFamilies),
  ...Object.values(objectiveFamilies),
  ...Object.values(autoCancelFamilies),
  ...Object.values(alertingFamilies),
  ...Object.values(replicaFamilies),
  ...Object.values(pushFamilies),
  accountInfoFamily([]),
  ...source.families,
];

const WORDS: Readonly<Record<string, string>> = { s: 'seconds', By: 'bytes' };

/** Returns the name that Prometheus' OTLP receiver generates with its default strategy, `UnderscoreEscapingWithSuffixes`. */
function translated({ name, type }: Family, unit: string): string {
  const words = name.split(/[^a-zA-Z0-9]+/).filter(word => word !== '');
  const suffix = WORDS[unit];
  const withUnit = suffix === undefined || words.includes(suffix) ? words : [...words, suffix];
  const atEnd = (word: string) => [...withUnit.filter(each => each !== word), word].join('_');
  if (type === 'counter') return atEnd('total');
  return unit === '1' && type === 'gauge' ? atEnd('ratio') : withUnit.join('_');
}

it('each family has the same name in Prometheus, whether it is pushed by OTLP or scraped', () => {
  expect(families.length).toBeGreaterThan(100);
  expect(families.map(family => translated(family, ucumUnitOf(family.name)))).toEqual(families.map(({ name }) => name));
  // The check above is not vacuous: `translated` adds missing suffixes, and the families have several units.
  expect(translated({ name: 'x.y', type: 'counter', help: '', labels: [] }, 's')).toBe('x_y_seconds_total');
  expect(new Set(families.map(({ name }) => ucumUnitOf(name)))).toEqual(new Set(['', 's', 'By', '1']));
});
