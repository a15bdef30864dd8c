import { globSync, readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { writeYaml } from '../../src/config/yaml-file.ts';
import { parsePython, pyYamlIsThere } from '../support/py-yaml.ts';
import { runs } from '../support/runs.ts';

const WORDS = 'yes no on Off y N true TRUE ~ null Null = << - ? ! * & .inf -.INF .nan --- ...'.split(' ');
const NUMBERS = '1_000 0123 08 0o17 0b101 0x1F 1e3 12e03 1.5e+3 +1 1. .5 0_ 1__ 190:20:30 1:30 1:2.5 1_0.5'.split(' ');
const TIMES = ['2027-01-02', '2027-01-02T03:04:05Z', '2001-12-14 21:59:43.10 -5'];
const OTHERS = [
  '',
  ' x',
  'x ',
  'a: b',
  'a #b',
  '# x',
  'a\nb',
  '\n',
  'a\n\n b\n',
  'a\r\nb',
  'a\tb',
  'a\u{85}b',
  'a\u{2028}b',
  '\u{2029}',
  '\u{feff}a',
  'a\u{7f}',
  'a\u{9f}\nb',
  '👩‍👩‍👧',
  '\u{a0}',
  ' \n',
];
const TEXTS = [...WORDS, ...NUMBERS, ...TIMES, ...OTHERS];
const FLOATS = [0, -1, 0.1, 15, 123456789012345680000];

describe('printed YAML', () => {
  it.each(TEXTS)('the text %j stays text in YAML 1.1 and 1.2, as a value and as a key', text => {
    const value = { list: [text], [text]: { key: text } };
    const printed = writeYaml(value);
    expect(parse(printed)).toEqual(value);
    expect(parse(printed, { version: '1.1', merge: false })).toEqual(value);
  });

  it.skipIf(!pyYamlIsThere())('values are equal for a strict parser of YAML 1.1', () => {
    const value = { texts: TEXTS, keys: Object.fromEntries(TEXTS.map((text, index) => [text, index])), FLOATS };
    expect(parsePython(writeYaml(value))).toEqual(value);
  });

  it('any value has the same meaning in YAML 1.1 and 1.2', () => {
    const unit = fc.constantFrom(...'01 9_.:-+eExob~ynoft=<#\t\n "\'\\\u{85}\u{a0}\u{2028}é👍'.split(''), ...TEXTS);
    const text = fc.oneof(
      fc.array(unit, { maxLength: 6 }).map(units => units.join('').toWellFormed()),
      fc.string(),
    );
    const leaf = fc.oneof(text, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.constant(null));
    const value = fc.dictionary(text, fc.oneof(leaf, fc.array(leaf), fc.dictionary(text, leaf)), {
      noNullPrototype: true,
    });
    fc.assert(
      fc.property(value, each => {
        const printed = writeYaml(each);
        expect(parse(printed)).toEqual(each);
        expect(parse(printed, { version: '1.1', merge: false })).toEqual(each);
      }),
      { numRuns: runs(300) },
    );
  });

  it('the same object in two places is printed twice, without alias', () => {
    const labels = { severity: 'warning' };
    expect(writeYaml([labels, labels])).toBe('- severity: warning\n- severity: warning\n');
  });
});

/** Files that programs other than the agent read, without templates. */
const SHIPPED = globSync(['dashboards/rules/*.yaml', 'deploy/**/*.{yaml,yml}'], { exclude: ['**/templates/**'] });

it.each(SHIPPED)('the shipped file %s has the same meaning in YAML 1.1 and 1.2', file => {
  const text = readFileSync(file, 'utf8');
  const read = (version: '1.1' | '1.2') => parseAllDocuments(text, { version }).map(document => document.toJS());
  expect(read('1.1')).toEqual(read('1.2'));
});
