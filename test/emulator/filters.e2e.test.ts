import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DlqRow, EventRow } from '../../src/emulator/message.ts';
import { type Emulator, startEmulator } from '../../src/emulator/server.ts';
import { runs } from '../support/runs.ts';
import { enteredAt, handClock, type Parameters, walk } from './emulated.ts';

/** Row values that each documented filter matches. */
const dlqFilters: Record<string, (row: DlqRow) => readonly string[]> = {
  messageId: row => [row.messageId],
  url: row => [row.url],
  topicName: row => optional(row.topicName),
  scheduleId: row => optional(row.scheduleId),
  queueName: row => optional(row.queueName),
  api: row => optional(row.api),
  responseStatus: row => [String(row.responseStatus)],
  callerIp: row => [row.callerIP],
  label: row => row.labels ?? [],
  flowControlKey: row => optional(row.flowControlKey),
  dlqIds: row => [row.dlqId],
};

const eventFilters: Record<string, (row: EventRow) => readonly string[]> = {
  messageId: row => [row.messageId],
  state: row => [row.state.toUpperCase(), ...(['active', 'retry', 'error'].includes(row.state) ? ['IN_PROGRESS'] : [])],
  url: row => [row.url],
  topicName: row => optional(row.topicName),
  scheduleId: row => optional(row.scheduleId),
  queueName: row => optional(row.queueName),
  messageIds: row => [row.messageId],
  label: row => row.labels ?? [],
  flowControlKey: row => optional(row.flowControlKey),
  host: row => [new URL(row.url).host],
  path: row => [new URL(row.url).pathname],
};

const optional = (value: string | undefined) => (value === undefined ? [] : [value]);

let emulated: Emulator;
let dlq: DlqRow[];
let events: EventRow[];

beforeAll(async () => {
  emulated = await startEmulator({ clock: handClock(), speed: 0, history: 20 * 60_000 });
  // Add unique rows so that every filter matches something.
  emulated.state.addDlqEntry({
    topicName: 'a&b=c d',
    labels: ['ärger', 'x+y'],
    queueName: 'q/1',
    url: 'https://a.example/%20?x=1&y=2',
  });
  emulated.state.addEvent({ topicName: 'a&b=c d', labels: ['ärger', 'x+y'], scheduleId: 'scd?#', state: 'cancelled' });
  dlq = emulated.state.dlqRows();
  events = emulated.state.eventRows();
});

afterAll(() => emulated.close());

/**
 * Returns distinct values, spread over the rows: all if there are at most `most`, otherwise between `most` and twice as many.
 */
function valuesOf<R>(rows: readonly R[], read: (row: R) => readonly string[], most = 12): string[] {
  const values = [...new Set(rows.flatMap(row => [...read(row)]))];
  const step = Math.max(1, Math.floor(values.length / most));
  return values.filter((_, index) => index % step === 0);
}

/** Compares thousands of rows several times faster than `toEqual`. */
function expectSame(found: readonly unknown[], expected: readonly unknown[]): void {
  if (!isDeepStrictEqual(found, expected)) expect(found).toEqual(expected);
}

describe('filters of the DLQ list', () => {
  test.each(Object.keys(dlqFilters))('the DLQ list can be filtered by %s', async name => {
    const read = dlqFilters[name] as (row: DlqRow) => readonly string[];
    const values = valuesOf(dlq, read);
    expect(values.length).toBeGreaterThan(0);
    for (const value of values) {
      const found = await walk(emulated, 'dlq', [[name, value]]);
      expectSame(
        found,
        dlq.filter(row => read(row).includes(value)),
      );
    }
    expect(await walk(emulated, 'dlq', [[name, name === 'responseStatus' ? '299' : 'none such']])).toEqual([]);
  });

  test.each(Object.keys(dlqFilters))(
    'the DLQ list accepts several values of %s, repeated or separated by commas',
    async name => {
      const read = dlqFilters[name] as (row: DlqRow) => readonly string[];
      const values = valuesOf(dlq, read)
        .filter(value => !value.includes(','))
        .slice(0, 3);
      const expected = dlq.filter(row => values.some(value => read(row).includes(value)));
      const repeated = await walk(
        emulated,
        'dlq',
        values.map(value => [name, value]),
      );
      expectSame(repeated, expected);
      expectSame(await walk(emulated, 'dlq', [[name, values.join(',')]]), expected);
    },
  );
});

describe('event list filters', () => {
  const latestFirst = (keep: (row: EventRow) => boolean) => events.filter(keep).reverse();

  test.each(Object.keys(eventFilters))('the event list can be filtered by %s', async name => {
    const read = eventFilters[name] as (row: EventRow) => readonly string[];
    const values = valuesOf(events, read);
    expect(values.length).toBeGreaterThan(0);
    for (const value of values) {
      const found = await walk(emulated, 'events', [[name, value]]);
      expectSame(
        found,
        latestFirst(row => read(row).includes(value)),
      );
    }
    if (name !== 'state') expect(await walk(emulated, 'events', [[name, 'none such']])).toEqual([]);
  });

  test.each(Object.keys(eventFilters))(
    'the event list accepts several values of %s, repeated or separated by commas',
    async name => {
      const read = eventFilters[name] as (row: EventRow) => readonly string[];
      const values = valuesOf(events, read)
        .filter(value => !value.includes(','))
        .slice(1, 4);
      const expected = latestFirst(row => values.some(value => read(row).includes(value)));
      const repeated = await walk(
        emulated,
        'events',
        values.map(value => [name, value]),
      );
      expectSame(repeated, expected);
      expectSame(await walk(emulated, 'events', [[name, values.join(',')]]), expected);
    },
  );

  test('the event list can be filtered by every documented state, and IN_PROGRESS covers three states', async () => {
    const states = ['CREATED', 'ACTIVE', 'RETRY', 'ERROR', 'DELIVERED', 'FAILED', 'CANCEL_REQUESTED', 'CANCELLED'];
    const counts = emulated.state.countEvents();
    for (const state of states) {
      const found = await walk(emulated, 'events', [['state', state]]);
      expect(found.length).toBe(counts[state.toLowerCase() as keyof typeof counts]);
      expect(found.length).toBeGreaterThan(0);
    }
    const inProgress = await walk(emulated, 'events', [['state', 'IN_PROGRESS']]);
    expect(inProgress.length).toBe(counts.active + counts.retry + counts.error);
  });
});

/** Generates any combination of filters, dates, order and page size. */
function anyParameters<R>(
  rows: () => readonly R[],
  filters: Record<string, (row: R) => readonly string[]>,
  timeOf: (row: R) => number,
) {
  return fc
    .record({
      names: fc.subarray(Object.keys(filters), { maxLength: 2 }),
      model: fc.nat(),
      other: fc.nat(),
      from: fc.option(fc.nat()),
      to: fc.option(fc.nat()),
      order: fc.option(fc.constantFrom('earliestFirst', 'latestFirst')),
      count: fc.option(fc.integer({ min: 20, max: 90 })),
    })
    .map(({ names, model, other, from, to, order, count }) => {
      const row = (index: number) => rows()[index % rows().length] as R;
      const wanted = names.map(name => {
        const read = filters[name] as (row: R) => readonly string[];
        return { name, read, values: [...read(row(model)), ...read(row(other))].filter(value => !value.includes(',')) };
      });
      const bounds = { from: from === null ? 0 : timeOf(row(from)), to: to === null ? Infinity : timeOf(row(to)) };
      const parameters: Parameters = [
        ...wanted.flatMap(({ name, values }) => values.map(value => [name, value] as const)),
        ...(from === null ? [] : [['fromDate', String(bounds.from)] as const]),
        ...(to === null ? [] : [['toDate', String(bounds.to)] as const]),
        ...(order === null ? [] : [['order', order] as const]),
        ...(count === null ? [] : [['count', String(count)] as const]),
      ];
      const expected = rows().filter(
        each =>
          timeOf(each) >= bounds.from &&
          timeOf(each) <= bounds.to &&
          wanted.every(({ read, values }) => values.length === 0 || values.some(value => read(each).includes(value))),
      );
      return { parameters, order, expected };
    });
}

test('a filtered DLQ list contains exactly the rows that match all filters and dates, in the requested order', async () => {
  const property = fc.asyncProperty(
    anyParameters(() => dlq, dlqFilters, enteredAt),
    async ({ parameters, order, expected }) => {
      const found = await walk(emulated, 'dlq', parameters);
      expectSame(found, order === 'latestFirst' ? expected.reverse() : expected);
    },
  );
  await fc.assert(property, { numRuns: runs(60) });
});

test('a filtered event list contains exactly the events that match all filters and dates, in the requested order', async () => {
  const few = () => events.slice(-1500);
  const since: Parameters[number] = ['fromDate', (events.at(-1500) as EventRow).time];
  const timeOf = (row: EventRow) => Number(row.time);
  const property = fc.asyncProperty(
    anyParameters(few, eventFilters, timeOf),
    async ({ parameters, order, expected }) => {
      const bounded = parameters.some(([name]) => name === 'fromDate') ? parameters : [...parameters, since];
      const found = await walk(emulated, 'events', bounded);
      const first = Number(since[1]);
      const outside = events.slice(0, -1500).filter(row => timeOf(row) === first);
      expect(outside).toEqual([]);
      expectSame(found, order === 'earliestFirst' ? expected : expected.reverse());
    },
  );
  await fc.assert(property, { numRuns: runs(60) });
});
