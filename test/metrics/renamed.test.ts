import { describe, expect, it } from 'vitest';
import { records } from '../../mixin/rules.ts';
import { collectors } from '../../src/collectors/index.ts';
import { accountFamilies } from '../../src/metrics/account-families.ts';
import { alertingFamilies } from '../../src/metrics/alerting.ts';
import { accountInfoFamily } from '../../src/metrics/own.ts';
import { createProcessMetrics } from '../../src/metrics/process.ts';
import { namesNow, RENAMED } from '../../src/metrics/renamed.ts';

const agent = createProcessMetrics({ version: '', configHash: '', configLoadedAt: 0, endpoints: [] }).source.families;
const families = new Map(
  [
    ...collectors.flatMap(({ families }) => Object.values(families)),
    ...accountFamilies,
    ...Object.values(alertingFamilies),
    accountInfoFamily([]),
    ...agent,
  ].map(family => [family.name, family]),
);

describe('names of 0.1.0', () => {
  it('lead to families and records that there are, with the labels that these have', () => {
    for (const { now } of RENAMED) {
      const [, name = '', label] = /^([\w:]+)(?:\{(\w+)="…"\})?$/.exec(now) ?? [];
      if (name.includes(':')) expect(records.map(({ record }) => record)).toContain(name);
      else
        expect(families.get(name)?.labels ?? `no ${name}`).toEqual(
          label ? expect.arrayContaining([label]) : expect.anything(),
        );
    }
  });

  it('are no names of today, unless they had a label more', () => {
    for (const { old, where } of RENAMED) {
      for (const label of Object.keys(where ?? {})) expect(families.get(old)?.labels ?? []).not.toContain(label);
      if (!where) expect(families.has(old)).toBe(false);
    }
  });

  it('are told from the labels, too', () => {
    expect(namesNow('delivery_dlq_left_total', { filter: ['all'] })).toEqual(['delivery_dlq_left_total']);
    expect(namesNow('delivery_dlq_left_total', { filter: ['x'] })).toEqual([
      'delivery_dlq_filter_left_total{filter="…"}',
    ]);
    expect(namesNow('delivery_dlq_messages', { queue: ['x'] }, 'queue')).toEqual([]);
    expect(namesNow('delivery_dlq_breakdown_messages', {})).toHaveLength(10);
    expect(namesNow('delivery_up', {})).toEqual([]);
  });
});

it('the prefix of a family says whose it is', () => {
  const ofCollectors = collectors.map(({ name }) => `${name}_`).join('|');
  const prefixes = new RegExp(
    `^(delivery_(up$|collector_|${ofCollectors}|event|message|attempt|oldest_in_flight_|objective_|on_time_|schedule_|account_|auto_cancel_|watch_)|process_|nodejs_)`,
  );
  const others = [...families.keys()].filter(name => !prefixes.test(name));
  expect(others.sort()).toEqual([
    'delivery_lists_missing_total',
    'delivery_rows_rejected_total',
    'delivery_series_dropped',
    'delivery_token_rejected',
  ]);
});

it('records are named level:metric:operations', () => {
  for (const { record } of records) expect(record).toMatch(/^(account|replica)[a-z_]*:delivery_[a-z_]+:[a-z0-9_]+$/);
});
