import { describe, expect, it } from 'vitest';
import { alerts } from '../../mixin/rules.ts';
import { requireProgram } from '../support/prometheus.ts';
import { ago, flat, type Input, type Values } from './cases/case.ts';
import { allRounds, health } from './course.ts';
import { neverFired, replica, testRules } from './promtool.ts';

const HOUR = 60;
const names = alerts.map(({ name }) => name);

/** A counter of an idle account. The counter is one lower after a backup of the store has been restored. */
const restored =
  (value: number): Values =>
  minute =>
    minute < HOUR ? value : value - 1;

const ofSchedule = (name: string) => `delivery_schedule_${name}{schedule="nightly"}`;
const counters: Readonly<Record<string, number>> = {
  'delivery_events_total{state="created"}': 1000,
  'delivery_events_total{state="active"}': 1100,
  'delivery_events_total{state="retry"}': 100,
  'delivery_events_total{state="delivered"}': 990,
  'delivery_events_total{state="error"}': 110,
  'delivery_messages_finished_total{outcome="delivered"}': 990,
  'delivery_messages_finished_total{outcome="failed"}': 10,
  delivery_messages_overdue_total: 12,
  delivery_event_log_gaps_total: 3,
  delivery_dlq_entered_total: 10,
  'delivery_dlq_left_total{reason="removed"}': 5,
  'delivery_dlq_left_total{reason="expired"}': 5,
  delivery_dlq_groups_new_total: 4,
  [ofSchedule('missed_total')]: 7,
  [ofSchedule('late_total')]: 7,
};

const input: Input = {
  ...health(allRounds),
  'up{}': flat(1),
  ...Object.fromEntries(Object.entries(counters).map(([series, value]) => [series, restored(value)])),
  delivery_event_log_newest_timestamp_seconds: ago(60),
  delivery_dlq_messages: flat(0),
  [ofSchedule('last_started_timestamp_seconds')]: ago(600),
  [ofSchedule('last_delivered_timestamp_seconds')]: ago(600),
};

describe.skipIf(!requireProgram('promtool'))('a restored backup of the store (promtool test rules)', () => {
  it('restoring a backup, which decreases every counter by one, fires no alert', () => {
    const queries = names.map(name => neverFired(name, 4 * HOUR));
    expect(testRules(names, [{ name: 'restored', input: replica(input), minutes: 4 * HOUR, queries }])).toBe('');
  });
});
