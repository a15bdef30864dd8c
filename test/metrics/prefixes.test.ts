import { expect, it } from 'vitest';
import { collectors } from '../../src/collectors/index.ts';
import { accountFamilies } from '../../src/metrics/account-families.ts';
import { alertingFamilies } from '../../src/metrics/alerting.ts';
import { accountInfoFamily } from '../../src/metrics/own.ts';
import { createProcessMetrics } from '../../src/metrics/process.ts';

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

it('the name prefix of each family shows which module owns it', () => {
  const ofCollectors = collectors.map(({ name }) => `${name}_`).join('|');
  const prefixes = new RegExp(
    `^(delivery_(up$|collector_|${ofCollectors}|event|message|attempt|oldest_in_flight_|objective_|on_time_|schedule_|failure_callbacks_|account_|auto_cancel_|problem$|watch_)|process_|nodejs_)`,
  );
  const others = [...families.keys()].filter(name => !prefixes.test(name));
  expect(others.sort()).toEqual([
    'delivery_lists_missing_total',
    'delivery_rows_rejected_total',
    'delivery_series_dropped',
    'delivery_service_clock_skew_seconds',
    'delivery_token_rejected',
  ]);
});
