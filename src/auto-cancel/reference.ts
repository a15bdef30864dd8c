import { STAGES } from './stages.ts';

const [BEGIN, END] = ['<!-- stages: generated from src/auto-cancel/stages.ts -->\n', '\n<!-- end of stages -->'];

const ASKED = { decide: 'before the intent', send: 'at the request' } as const;

/** The text of docs/auto-cancel.md with the table of stages as the code has it. Throws where its marks are missing. */
export function withStages(text: string): string {
  const rows = STAGES.map(({ name, reasons, description, asked }) => {
    const words = reasons.map(reason => `\`${reason}\``).join(', ');
    return `| ${name} | ${words} | ${description} | ${asked.map(when => ASKED[when]).join(', ')} |`;
  });
  const table = ['| stage | reasons | nothing is cancelled because | checked |', '|---|---|---|---|', ...rows].join(
    '\n',
  );
  const [before, rest] = text.split(BEGIN);
  const after = rest?.slice(rest.indexOf(END));
  if (after === undefined || !after.startsWith(END)) throw new Error('docs/auto-cancel.md has no marks for its stages');
  return `${before}${BEGIN}${table}${after}`;
}
