import { STAGES } from '../src/auto-cancel/stages.ts';

const [BEGIN, END] = ['<!-- stages: generated from src/auto-cancel/stages.ts -->\n', '\n<!-- end of stages -->'];

const ASKED = { decide: 'intent', send: 'request' } as const;

const code = (words: readonly string[]) => words.map(word => `\`${word}\``).join(', ');

function textOf(because: (typeof STAGES)[number]['because']): string {
  const texts = Map.groupBy(Object.keys(because), reason => because[reason]);
  return [...texts].map(([text, reasons]) => `${code(reasons)}: ${text}`).join('; ');
}

/** Returns the text of docs/auto-cancel-operate.md with the current table of stages. Throws if its marks are missing. */
export function withStages(text: string): string {
  const rows = STAGES.map(({ name, because, note, asked }) => {
    const why = [textOf(because), note].filter(each => each !== undefined).join('. ');
    return `| ${name} | ${why} | ${asked.map(when => ASKED[when]).join(', ')} |`;
  });
  const table = ['| stage | nothing is cancelled because | checked |', '|---|---|---|', ...rows].join('\n');
  const [before, rest] = text.split(BEGIN);
  const after = rest?.slice(rest.indexOf(END));
  if (after === undefined || !after.startsWith(END))
    throw new Error('docs/auto-cancel-operate.md has no marks for its stages');
  return `${before}${BEGIN}${table}${after}`;
}
