import { existsSync, readdirSync, readFileSync } from 'node:fs';

/** In the package beside this file, as its assets are; in the sources where they are written. */
const folder = () => {
  const beside = new URL('./runbooks/', import.meta.url);
  return existsSync(beside) ? beside : new URL('../../../docs/runbooks/', import.meta.url);
};

/** The text of a runbook, as Markdown; undefined where there is none of that name. */
export function readRunbook(name: string): string | undefined {
  const place = folder();
  // Names come from a list: none of them leads elsewhere.
  if (!readdirSync(place).includes(`${name}.md`)) return undefined;
  return readFileSync(new URL(`${name}.md`, place), 'utf8');
}
