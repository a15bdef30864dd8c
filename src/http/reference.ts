import { ROUTES, type Route } from './openapi.ts';

const [BEGIN, END] = ['<!-- routes: generated from src/http/openapi.ts -->\n', '\n<!-- end of routes -->'];

const code = (text: string) => `\`${text}\``;

function parametersOf({ query, body }: Route): string {
  if (body) return `body: ${code(body)}`;
  return Object.entries(query?.shape ?? {})
    .map(([name, { description = '' }]) => `${code(name)} ${description}`.trim())
    .join('<br>');
}

function answersOf({ answers }: Route): string {
  return Object.entries(answers)
    .map(([status, { json, list, text }]) => `${status} ${list ? `list of ${code(list)}` : code(json ?? text ?? '')}`)
    .join('<br>');
}

/** The text of docs/api.md with the table of routes as the code has it. Throws where its marks are missing. */
export function withRoutes(text: string): string {
  const rows = ROUTES.map(route => {
    const { method, path, says } = route;
    return `| ${code(`${method.toUpperCase()} ${path}`)} | ${says} | ${parametersOf(route)} | ${answersOf(route)} |`;
  });
  const table = ['| route | what it is | query | answers |', '|---|---|---|---|', ...rows].join('\n');
  const [before, rest] = text.split(BEGIN);
  const after = rest?.slice(rest.indexOf(END));
  if (after === undefined || !after.startsWith(END)) throw new Error('docs/api.md has no marks for its routes');
  return `${before}${BEGIN}${table}${after}`;
}
