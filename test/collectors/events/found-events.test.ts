import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createFoundEvents } from '../../../src/collectors/events/found-events.ts';

const eventOf = (identity: bigint, time: number) => ({
  identity,
  message: identity,
  state: 0,
  time,
  dueAt: 0,
  destination: '',
  schedules: undefined,
  statusClass: 0,
});

it('has each identity once, as it was found first, in that order', () => {
  // More than the table has room for at first. Many that differ in one half alone, and zero.
  const half = fc.oneof(fc.constantFrom(0n, 1n, 64n, 128n, 0xffff_ffffn), fc.bigInt({ min: 0n, max: 0xffff_ffffn }));
  const identity = fc.tuple(half, half).map(([low, high]) => (high << 32n) | low);
  fc.assert(
    fc.property(fc.array(identity, { maxLength: 300, size: 'max' }), identities => {
      const found = createFoundEvents();
      const expected = new Map<bigint, number>();
      for (const [time, each] of identities.entries()) {
        expect(found.has(each)).toBe(expected.has(each));
        expect(found.add(eventOf(each, time))).toBe(!expected.has(each));
        if (!expected.has(each)) expected.set(each, time);
      }
      expect(found.size).toBe(expected.size);
      expect(found.values().map(({ identity: each, time }) => [each, time])).toEqual([...expected]);
    }),
  );
});
