import { expect, it } from 'vitest';
import { toTable } from '../../src/cli/table.ts';

it('a table aligns its columns', () => {
  const rows = [
    ['all', '12'],
    ['payments', '3'],
  ];
  expect(toTable(['filter', 'messages'], rows, ['messages'])).toBe(
    ['filter    messages', 'all             12', 'payments         3'].join('\n'),
  );
});

it('a table may have more rows than a function call can have arguments', () => {
  const rows = Array.from({ length: 200_000 }, (_, row) => [String(row)]);
  expect(toTable(['n'], rows).split('\n').at(-1)).toBe('199999');
});

it('a table replaces control characters and lone surrogates', () => {
  expect(toTable(['key'], [['a\u001b[2J\nb\u202e\ud800']])).toBe('key\na\u{fffd}[2J\u{fffd}b\u{fffd}\u{fffd}');
});
