import { expect, it } from 'vitest';
import { createReuse } from '../../src/kit/reuse.ts';

it('gives what was made from the same parts, until it has settled', () => {
  let made = 0;
  const make = () => {
    made += 1;
    return made;
  };
  const part = {};
  const first = createReuse<number>();
  expect([first.of('a', [part, 'x'], make), first.of('b', [], make)]).toEqual([1, 2]);
  const second = createReuse(first);
  expect(second.of('a', [part, 'x'], make)).toBe(1);
  expect(second.of('a', [part, 'y'], make)).toBe(3);
  expect(second.of('a', [part], make)).toBe(4);
  second.settle();
  expect(second.of('a', [part], make)).toBe(4);
  expect(second.of('b', [], make)).toBe(5);
  expect([...first.made.values()].map(({ value }) => value)).toEqual([1, 2]);
});
