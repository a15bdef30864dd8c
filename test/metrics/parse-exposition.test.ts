import { expect, test } from 'vitest';
import { parseExposition } from '../support/parse-exposition.ts';

const head = (name: string, type: string) => `# HELP ${name} x\n# TYPE ${name} ${type}\n`;
const gauge = head('a', 'gauge');
const buckets = (...lines: string[]) => lines.map(line => `h_bucket{le=${line}\n`).join('');

test('parseExposition parses valid expositions', () => {
  const text = `# HELP a_seconds "x" \\\\ \\n\n# TYPE a_seconds gauge\na_seconds{b="\\"\\\\\\n",c=""} -1.5e-07\na_seconds +Inf\n`;
  const samples = [
    { name: 'a_seconds', labels: { b: '"\\\n', c: '' }, value: -1.5e-7 },
    { name: 'a_seconds', labels: {}, value: Infinity },
  ];
  const family = { name: 'a_seconds', type: 'gauge', help: '"x" \\ \n', samples };
  expect(parseExposition(text, 'text')).toEqual([{ ...family, unit: undefined }]);
  const openmetrics = `${text.replaceAll('"x"', '\\"x\\"').replace('gauge\n', 'gauge\n# UNIT a_seconds seconds\n')}# EOF\n`;
  expect(parseExposition(openmetrics, 'openmetrics')).toEqual([{ ...family, unit: 'seconds' }]);
});

test.each([
  ['duplicate series', `${gauge}a{b="1",c="2"} 1\na{c="2",b="1"} 2\n`],
  ['family a is interleaved', `${gauge}a 1\n${head('b', 'gauge')}b 1\n${gauge}a{x="1"} 1\n`],
  ['sample b does not belong to the gauge a', `${gauge}b 1\n`],
  ['sample a before its TYPE', 'a 1\n'],
  ['a has no HELP', '# TYPE a gauge\na 1\n'],
  ['sample a before its TYPE', '# HELP a x\na 1\n'],
  ['HELP of a after its samples', '# TYPE a gauge\na 1\n# HELP a x\n'],
  ['TYPE of a twice', `${gauge}# TYPE a gauge\na 1\n`],
  ['a has no samples', gauge],
  ['neither a sample nor', `${gauge}a 1\n# why\n`],
  ['begins with no metric name', `${gauge}a 1\n\n`],
  ['bad escape', `${gauge}a{b="\\t"} 1\n`],
  ['no label at', `${gauge}a{b="\\"} 1\n`],
  ['no label at', `${gauge}a{b="1",} 1\n`],
  ['labels do not end', `${gauge}a{b="1"c="2"} 1\n`],
  ['label b twice', `${gauge}a{b="1",b="2"} 1\n`],
  ['is not a number', `${gauge}a 1 1700000000\n`],
  ['is not a number', `${gauge}a 0x10\n`],
  ['is not a number', `${gauge}a Infinity\n`],
  ['no space before the value', `${gauge}a\n`],
  ['not UTF-8', `${gauge}a{b="\ud800"} 1\n`],
  ['no line feed', `${gauge}a 1`],
  ['type info of a_info is unknown', `${head('a_info', 'info')}a_info 1\n`],
  ['UNIT in the text format', `${head('a_seconds', 'gauge')}# UNIT a_seconds seconds\na_seconds 1\n`],
  ['counter c has no _total', `${head('c', 'counter')}c 1\n`],
  ['counter c_total is -1', `${head('c_total', 'counter')}c_total -1\n`],
  [
    'le 300 is not a canonical float',
    `${head('h', 'histogram')}${buckets('"300"} 1', '"+Inf"} 1')}h_sum 1\nh_count 1\n`,
  ],
  ['do not increase', `${head('h', 'histogram')}${buckets('"1.0"} 2', '"+Inf"} 1')}h_sum 1\nh_count 1\n`],
  ['do not increase', `${head('h', 'histogram')}${buckets('"2.0"} 1', '"1.0"} 1', '"+Inf"} 1')}h_sum 1\nh_count 1\n`],
  ['no bucket +Inf', `${head('h', 'histogram')}${buckets('"1.0"} 1')}h_sum 1\nh_count 1\n`],
  ['the count of', `${head('h', 'histogram')}${buckets('"+Inf"} 1')}h_sum 1\nh_count 2\n`],
  ['has no sum', `${head('h', 'histogram')}${buckets('"+Inf"} 1')}h_count 1\n`],
  ['is interleaved', `${head('h', 'histogram')}h_sum 1\nh_sum{a="1"} 1\nh_count 1\n`],
])('parseExposition rejects invalid text format: %s', (message, text) => {
  expect(() => parseExposition(text, 'text')).toThrow(message);
});

test.each([
  ['not # EOF', `${gauge}a 1\n`],
  ['neither a sample nor', `${gauge}# EOF\na 1\n# EOF\n`],
  ['not # EOF', `${gauge}a 1\n# EOF\n\n`],
  ['no line feed', `${gauge}a 1\n# EOF\n# EOF`],
  ['sample c does not belong to the counter c', `${head('c', 'counter')}c 1\n# EOF\n`],
  ['sample c_total_total does not', `${head('c', 'counter')}c_total_total 1\n# EOF\n`],
  ['info i is 2', `${head('i', 'info')}i_info 2\n# EOF\n`],
  ['a does not end in its unit seconds', `${gauge}# UNIT a seconds\na 1\n# EOF\n`],
  ['bare quote in HELP', `# HELP a "x"\n# TYPE a gauge\na 1\n# EOF\n`],
])('parseExposition rejects invalid OpenMetrics: %s', (message, text) => {
  expect(() => parseExposition(text, 'openmetrics')).toThrow(message);
});

test('parseExposition names the line in the error', () => {
  expect(() => parseExposition(`${gauge}a 1\na 1\n`, 'text')).toThrow(/^line 4: duplicate series/);
});
