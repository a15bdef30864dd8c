import { STAGES } from '../src/auto-cancel/stages.ts';

const code = (words: readonly string[]) => words.map(word => `\`${word}\``).join(', ');

/** Returns a table row for each explanation of a stage. Only the first row contains the name of the stage. */
function rowsOf({ name, reasons }: (typeof STAGES)[number]): string[] {
  const explained = [...Map.groupBy(Object.keys(reasons), reason => reasons[reason])];
  return explained.map(([why, words], index) => `|${index === 0 ? ` ${name} ` : ''}| ${code(words)} | ${why} |`);
}

/** Returns the table of stages for docs/auto-cancel-operate.md. */
export function stagesTable(): string {
  const rows = STAGES.flatMap(rowsOf);
  return ['| stage | reason | nothing is cancelled because |', '|---|---|---|', ...rows].join('\n');
}
