import { STAGES } from '../src/auto-cancel/stages.ts';

const [BEGIN, END] = ['<!-- stages: generated from src/auto-cancel/stages.ts -->\n', '\n<!-- end of stages -->'];

const ASKED = { decide: 'before the intent', send: 'at the request' } as const;

const code = (words: readonly string[]) => words.map(word => `\`${word}\``).join(', ');

function textOf(because: (typeof STAGES)[number]['because']): string {
  const texts = Map.groupBy(Object.keys(because), reason => because[reason]);
  if (texts.size === 1) return [...texts.keys()].join();
  return [...texts].map(([text, reasons]) => `${code(reasons)}: ${text}`).join('; ');
}

/** Returns the text of docs/auto-cancel.md with the current table of stages. Throws if its marks are missing. */
export function withStages(text: string): string {
  const rows = STAGES.map(({ name, because, note, asked }) => {
    const words = Object.keys(because);
    const why = [textOf(because), note].filter(each => each !== undefined).join('. ');
    return `| ${name} | ${code(words)} | ${why} | ${asked.map(when => ASKED[when]).join(', ')} |`;
  });
  const table = ['| stage | reasons | nothing is cancelled because | checked |', '|---|---|---|---|', ...rows].join(
    '\n',
  );
  const [before, rest] = text.split(BEGIN);
  const after = rest?.slice(rest.indexOf(END));
  if (after === undefined || !after.startsWith(END)) throw new Error('docs/auto-cancel.md has no marks for its stages');
  return `${before}${BEGIN}${table}${after}`;
}
