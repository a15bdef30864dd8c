import { describe, expect, it } from 'vitest';
import { readYaml } from '../../src/config/yaml-file.ts';

const COLUMN = 'starts in the wrong column: all keys of a section, and all items of a list, start in the same column';
const KEY = 'must be a key: a name, a colon and a space';
const COMMA = 'must have a comma between items in { } or [ ]';
const BELOW = '; a key in the next line starts in the column of this key';

describe('YAML errors', () => {
  it.each([
    [
      'a key of a list item that is indented too little',
      'accounts:\n  - name: a\n    token: x\n   baseUrl: y\n',
      `4:1: ${COLUMN}`,
    ],
    [
      'a key that is indented too far',
      'server:\n  listen: a\n   externalUrl: b\n',
      `2:11: must be one value: quote text that contains a colon and a space${BELOW}`,
    ],
    [
      'a key of a list item that is indented too far',
      'accounts:\n- name: a\n   token: x\n',
      `2:9: must be one value: quote text that contains a colon and a space${BELOW}`,
    ],
    ['a tab', 'a:\n\tb: 1\n', '2:1: must be indented with spaces, not tabs'],
    ['no colon', 'a: 1\nfoo\nb: 2\n', `2:1: ${KEY}`],
    ['no space after the colon', 'a:1\nb: 2\n', `1:1: ${KEY}`],
    ['an open brace', 'a: { b: 1\nc: 2\n', '2:1: a { or [ opened above is not closed'],
    ['an open bracket', 'a: [1, 2\nb: 3', '2:1: a { or [ opened above is not closed'],
    ['an open quote', "a: 'x\nb: y\n", '1:4: must end with the same quote that it starts with'],
    ['an open quote in braces', 'a: 1\nb: { c: "x }\nd: 2\n', '2:9: must end with the same quote that it starts with'],
    [
      'a variable in braces',
      `a: { b: $${'{L}'}, c: 1 }`,
      '1:9: variables are not expanded here; write a secret as { env: L }',
    ],
    ['a variable in brackets', `a: [$${'{L}'}]`, '1:5: variables are not expanded here'],
    ['a duplicate key', 'a: 1\na: 2', '2:1: duplicate key'],
    ['two colons', 'a: b: c\n', '1:4: must be one value: quote text that contains a colon and a space'],
    ['an at sign', 'a: @x', '1:4: is not expected here: text that begins with'],
    ['a template expression', 'a: {{x}}/y', 'goes in quotes'],
    ['a mapping as a key', 'a: {{ x }}', '1:5: must be text as a key; text that begins with { or [ goes in quotes'],
    ['a list next to keys', 'a: 1\n- b\n', `2:1: ${KEY}; all keys of a section, and all items of a list`],
    ['no comma', 'a: { b: 1 c: 2 }', COMMA],
    ['two documents', 'a: 1\n---\nb: 2', '2:1: must be one document: --- starts another'],
    ['an invalid escape sequence', 'a: "\\q"', 'in single quotes it does not'],
    ['a tag', 'a: !x y', '1:4: tags are not allowed'],
    ['a tag of a date', 'a: !!timestamp 2026-01-01', '1:4: tags are not allowed'],
    ['a number as a key', 'a: 1\n0123: x', '2:1: must be text as a key: put it in quotes: "0123"'],
    ['a boolean as a key', '{ a: 1, true: x }', '1:9: must be text as a key: put it in quotes: "true"'],
    ['null as a key', '~: x', '1:1: must be text as a key: put it in quotes: "~"'],
    ['an empty key', ': x', '1:1: must be text as a key'],
    ['an alias', 'a: *x', '1:4: aliases are not allowed'],
  ])('one YAML error is reported, with its position and the fix: %s', (_what, text, expected) => {
    const { errors } = readYaml(text, 'x.yaml');
    const reported = errors.map(({ line, column, message }) => `${line}:${column}: ${message}`);
    expect(reported).toEqual([expect.stringContaining(expected)]);
  });
});

it('text without quotes is read as written, regardless of the YAML version of the file', () => {
  const values = ['no', 'on', 'y', '2026-01-01', '12:30:45', '1_000', '0b11', '1.2.3', '08:00'];
  for (const head of ['', '%YAML 1.1\n---\n', '%YAML 1.2\n---\n']) {
    const { content, errors } = readYaml(`${head}- ${values.join('\n- ')}\n`, 'x.yaml');
    expect([content, errors]).toEqual([values, []]);
  }
});
