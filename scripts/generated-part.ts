import { readFileSync } from 'node:fs';

/**
 * Returns the text of a file with new content between the markers of a generated part, `<!-- generated: NAME -->` and
 * `<!-- end: NAME -->`. Throws an Error if the markers are missing.
 */
export function withPart(file: string, name: string, content: string, text = readFileSync(file, 'utf8')): string {
  const [start, end] = [`<!-- generated: ${name} -->\n`, `<!-- end: ${name} -->`];
  const [before, rest, ...more] = text.split(start);
  const after = rest?.slice(rest.indexOf(end));
  if (!after?.startsWith(end) || more.length > 0) throw new Error(`${file} has no markers for ${name}`);
  return `${before}${start}${content}\n${after}`;
}
