import { expect, it } from 'vitest';
import { restoreMemory } from '../../../src/collectors/events/rows.ts';
import { createSchedules } from '../../../src/collectors/events/schedules.ts';
import { NO_ROUTES } from '../../../src/collectors/routes.ts';
import { toDeliveryEvent } from '../../../src/upstream/wire.ts';

const TIME = Date.UTC(2026, 0, 1);
const OPTIONS = { destination: 'none', maxDestinations: 10, overlap: 60_000 } as const;

/** Returns the schedules of the events in a stored chunk. */
function schedulesIn(chunk: readonly unknown[]) {
  const rows = new Map([['chunk/0', JSON.stringify(chunk)]]);
  const { chunks } = restoreMemory(rows, OPTIONS, { routes: NO_ROUTES });
  return [...chunks.values()].flat().map(({ schedules }) => schedules);
}

it('overlong schedule ids that an earlier version stored are dropped, and the rest of their rows is restored', () => {
  const long = 'x'.repeat(4_000_000);
  const chunk = [
    ['a1', 0, TIME, 0, '', `ff ${long}`],
    ['a2', 0, TIME, 0, '', '0123456789abcdef', `ff ${long}`, 'ff scd_1'],
    ['a3', 0, TIME, 0, ''],
  ];
  expect(schedulesIn(chunk)).toEqual([undefined, ['0123456789abcdef', 'ff scd_1'], undefined]);
});

it('the start of a schedule with an id of any length is short enough to be restored', () => {
  const { of } = createSchedules({ configured: [], stored: new Map(), routes: NO_ROUTES, touch: () => {} });
  const row = { messageId: 'm', state: 'CREATED', time: TIME, url: 'https://a.example/', scheduleId: 's'.repeat(9999) };
  const event = toDeliveryEvent(row, TIME);
  const own = event ? (of(event) ?? []) : [];
  expect(own).toHaveLength(1);
  expect(schedulesIn([['a1', 0, TIME, 0, '', ...own]])).toEqual([own]);
});
