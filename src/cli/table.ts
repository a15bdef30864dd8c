import { printable } from '../kit/text.ts';

/** Formats rows as columns. Columns in `right` are right-aligned. */
export function toTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  right: readonly string[] = [],
): string {
  const lines = [head, ...rows].map(line => line.map(printable));
  const widths = head.map((_, column) => lines.reduce((most, line) => Math.max(most, line[column]?.length ?? 0), 0));
  return lines
    .map(line =>
      line
        .map((cell, column) => {
          const width = widths[column] ?? 0;
          return right.includes(head[column] ?? '') ? cell.padStart(width) : cell.padEnd(width);
        })
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
