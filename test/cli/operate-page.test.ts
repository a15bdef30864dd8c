import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { OUTCOMES } from '../../src/upstream/errors.ts';

const page = readFileSync('docs/operate.md', 'utf8');

/** First cells of a table's rows, below a heading. */
function firstCells(heading: string): string[] {
  const [, section = ''] = page.split(`${heading}\n`);
  const rows = section.split(/^#/m)[0]?.match(/^\| `.*$/gm) ?? [];
  return rows.map(row => row.split(' | ')[0] ?? '');
}

const codeIn = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);

it('every log line that the page explains is one that the agent writes', () => {
  const sources = globSync('src/**/*.ts').map(file => readFileSync(file, 'utf8'));
  const messages = firstCells('### Lines that ask for something').flatMap(codeIn);
  expect(messages.length).toBeGreaterThan(30);
  expect(messages.filter(message => !sources.some(text => text.includes(`'${message}'`)))).toEqual([]);
});

it('explains every reason for which a round fails', () => {
  const explained = firstCells('## Log').flatMap(codeIn);
  // A round that succeeded has none; the store is another room's.
  const reasons = [...OUTCOMES.filter(outcome => outcome !== 'ok'), 'store'];
  expect(reasons.filter(reason => !explained.includes(reason))).toEqual([]);
});

it('leaves out no message of level warn or error', () => {
  const said = globSync('src/**/*.ts')
    .filter(file => !/^src\/(cli|config|emulator|mixin)\//.test(file))
    .flatMap(file => [
      ...readFileSync(file, 'utf8').matchAll(/\b[lL]og\.(?:warn|error)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)/g),
    ])
    .flatMap(([call]) => [...call.matchAll(/'([a-z][^']* [^']*)'/g)].map(([, message = '']) => message));
  expect(said.length).toBeGreaterThan(25);
  expect([...new Set(said)].filter(message => !page.includes(`\`${message}\``))).toEqual([]);
});
