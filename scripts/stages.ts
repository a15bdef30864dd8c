import { STAGES } from '../src/auto-cancel/stages.ts';

const [START, END] = ['<!-- stages: generated from src/auto-cancel/stages.ts -->\n', '\n<!-- end of stages -->'];

const code = (words: readonly string[]) => words.map(word => `\`${word}\``).join(', ');

/** Returns a table row for each explanation of a stage. Only the first row contains the name of the stage. */
function rowsOf({ name, reasons }: (typeof STAGES)[number]): string[] {
  const explained = [...Map.groupBy(Object.keys(reasons), reason => reasons[reason])];
  return explained.map(([why, words], index) => `|${index === 0 ? ` ${name} ` : ''}| ${code(words)} | ${why} |`);
}

/** Returns the text of docs/auto-cancel-operate.md with the current table of stages. Throws an Error if its markers are missing. */
export function withStages(text: string): string {
  const rows = STAGES.flatMap(rowsOf);
  const table = ['| stage | reason | nothing is cancelled because |', '|---|---|---|', ...rows].join('\n');
  const [before, rest] = text.split(START);
  const after = rest?.slice(rest.indexOf(END));
  if (after === undefined || !after.startsWith(END))
    throw new Error('docs/auto-cancel-operate.md has no markers for its stages');
  return `${before}${START}${table}${after}`;
}
