import { expect, it } from 'vitest';
import { createSchedules } from '../../../src/collectors/events/schedules.ts';
import { NO_ROUTES } from '../../../src/collectors/routes.ts';
import { toDeliveryEvent } from '../../../src/upstream/wire.ts';

it('the key of a start is short, even if the id of its schedule is long', () => {
  const { of } = createSchedules({ configured: [], stored: new Map(), routes: NO_ROUTES, touch: () => {} });
  const time = Date.UTC(2026, 0, 1);
  const row = { messageId: 'm', state: 'CREATED', time, url: 'https://a.example/', scheduleId: 's'.repeat(9999) };
  const event = toDeliveryEvent(row, time);
  const [key, ...others] = event ? (of(event) ?? []) : [];
  expect(key?.length).toBeLessThan(600);
  expect(others).toEqual([]);
});
