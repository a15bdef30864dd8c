import { expect, it } from 'vitest';
import { proveEntries, proveEvents } from '../../src/lookup/proof.ts';
import type { DeliveryEvent } from '../../src/model/message.ts';

const EVENT: DeliveryEvent = { messageId: 'm1', state: 'failed', time: 1000, url: 'https://a.example/x', queue: 'q' };

const page = (...rows: readonly Partial<DeliveryEvent>[]) => ({
  rows: rows.map(row => ({ ...EVENT, ...row })),
  rejected: 0,
});

it.each([
  ['state', { state: 'FAILED' }, { state: 'delivered' } as const],
  ['queueName', { queueName: 'q' }, { queue: 'other' }],
  ['messageId', { messageId: 'm1' }, { messageId: 'm2' }],
  ['fromDate', { fromDate: 900 }, { time: 800 }],
])('proveEvents rejects events that do not match the filter %s', (parameter, filters, other) => {
  const proof = proveEvents(filters);
  proof.add(page({}));
  expect(proof.isProven()).toBe(true);
  expect(() => proof.add(page(other))).toThrow(`the service ignores the parameter ${parameter}: `);
});

it('proveEvents accepts events in the states active, retry and error for the filter IN_PROGRESS', () => {
  const proof = proveEvents({ state: 'IN_PROGRESS' });
  proof.add(page({ state: 'active' }, { state: 'retry' }, { state: 'error' }));
  expect(proof.isProven()).toBe(true);
});

it.each([
  ['lack the field', { scheduleId: 's' }, {}],
  ['have an unknown state', { state: 'FAILED' }, { state: 'unknown' } as const],
])('a filter is not proven if the rows %s', (_, filters, row) => {
  const proof = proveEvents(filters);
  proof.add(page(row));
  expect(proof.isProven()).toBe(false);
});

it('a filter is not proven if a row is unreadable', () => {
  for (const proof of [proveEntries({ queueName: 'q' }), proveEvents({ state: 'FAILED' })]) {
    proof.add({ rows: [], rejected: 1 });
    expect(proof.isProven()).toBe(false);
  }
});

it('a list without filters is proven regardless of its rows', () => {
  const proof = proveEntries({});
  proof.add({ rows: [{}], rejected: 1 });
  expect(proof.isProven()).toBe(true);
});
