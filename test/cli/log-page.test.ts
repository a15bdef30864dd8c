import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { REQUEST_OUTCOMES } from '../../src/upstream/errors.ts';

const page = readFileSync('docs/log.md', 'utf8');
const sources = globSync('src/**/*.ts').map(file => readFileSync(file, 'utf8'));

/** Returns the inline code in the first column of a section's tables, including tables of its subsections. */
function codeInFirstCells(heading: string): string[] {
  const [, section = ''] = page.split(`\n## ${heading}\n`);
  const rows = section.split(/^## /m)[0]?.match(/^\| `.*$/gm) ?? [];
  const cells = rows.map(row => row.split(' | ')[0] ?? '');
  return cells.flatMap(cell => [...cell.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code));
}

it('docs/log.md explains only messages that occur in the source', () => {
  const messages = codeInFirstCells('Lines that need action');
  expect(messages.length).toBeGreaterThan(50);
  expect(messages.filter(message => !sources.some(text => text.includes(`'${message}'`)))).toEqual([]);
});

it('docs/log.md lists every reason for a failed round, and no others', () => {
  // A failure of the store also fails a round.
  const reasons = [...REQUEST_OUTCOMES.filter(outcome => outcome !== 'ok'), 'store'];
  expect(codeInFirstCells('Reasons').toSorted()).toEqual(reasons.toSorted());
});

it('docs/log.md explains every message of level warn and error', () => {
  const calls =
    /\b(?:[lL]og\.(?:warn|error)|logBound|failures\.note|(?<!\.)note)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)/g;
  const logged = sources
    .flatMap(text => [...text.matchAll(calls)])
    .flatMap(([call]) => [...call.matchAll(/'([a-z][^']* [^']*)'/g)].map(([, message = '']) => message));
  expect(logged.length).toBeGreaterThan(35);
  const explained = codeInFirstCells('Lines that need action');
  expect([...new Set(logged)].filter(message => !explained.includes(message))).toEqual([]);
});
