import { expect, it } from 'vitest';
import { alertsThatRead } from '../../src/mixin/blind-alerts.ts';

it('finds alerts that read a family themselves', () =>
  expect(alertsThatRead(['delivery_schedule_missed_total'])).toEqual(['DeliveryScheduleMissed']));

it('finds alerts that read a family through recording rules', () =>
  expect(alertsThatRead(['delivery_messages_finished_total'])).toContain('DeliveryErrorBudgetFastBurn'));

it('does not take the beginning of a name for the name', () => expect(alertsThatRead(['delivery_dlq'])).toEqual([]));

it('finds nothing for families that only dashboards show', () =>
  expect(alertsThatRead(['delivery_watch_api_response_bytes_total'])).toEqual([]));
