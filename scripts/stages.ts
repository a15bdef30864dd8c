import { STAGES } from '../src/auto-cancel/stages.ts';

const [START, END] = ['<!-- stages: generated from src/auto-cancel/stages.ts -->\n', '\n<!-- end of stages -->'];

const PHASES = { decide: 'intent', send: 'request' } as const;

const code = (words: readonly string[]) => words.map(word => `\`${word}\``).join(', ');

function textOf(reasons: (typeof STAGES)[number]['reasons']): string {
  const texts = Map.groupBy(Object.keys(reasons), reason => reasons[reason]);
  return [...texts].map(([text, words]) => `${code(words)}: ${text}`).join('; ');
}

/** Returns the text of docs/auto-cancel-operate.md with the current table of stages. Throws an Error if its markers are missing. */
export function withStages(text: string): string {
  const rows = STAGES.map(({ name, reasons, note, phases }) => {
    const why = [textOf(reasons), note].filter(each => each !== undefined).join('. ');
    return `| ${name} | ${why} | ${phases.map(when => PHASES[when]).join(', ')} |`;
  });
  const table = ['| stage | nothing is cancelled because | checked |', '|---|---|---|', ...rows].join('\n');
  const [before, rest] = text.split(START);
  const after = rest?.slice(rest.indexOf(END));
  if (after === undefined || !after.startsWith(END))
    throw new Error('docs/auto-cancel-operate.md has no markers for its stages');
  return `${before}${START}${table}${after}`;
}
