/**
 * A strict parser of text format 0.0.4 and OpenMetrics 1.0.0, independent of the writer. It also rejects valid features
 * that the project never writes: timestamps, summaries and exemplars.
 */
interface ParsedSample {
  /** Name as written, including the suffix. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface ParsedFamily {
  /** Name in the family's TYPE line. */
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly unit: string | undefined;
  readonly samples: readonly ParsedSample[];
}

interface Open {
  readonly name: string;
  readonly samples: ParsedSample[];
  type?: string;
  help?: string;
  unit?: string;
}

type ParsedFormat = 'text' | 'openmetrics';

const SUFFIXES: Readonly<Record<ParsedFormat, Readonly<Record<string, readonly string[]>>>> = {
  text: { gauge: [''], counter: [''], histogram: ['_bucket', '_sum', '_count'] },
  openmetrics: {
    gauge: [''],
    unknown: [''],
    counter: ['_total'],
    histogram: ['_bucket', '_sum', '_count'],
    info: ['_info'],
  },
};
const NAME = /^[a-zA-Z_][a-zA-Z0-9_]*/;
const NUMBER = /^(?:NaN|[+-]?Inf|[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)$/;

function toNumber(text: string): number {
  if (!NUMBER.test(text)) throw new Error(`${JSON.stringify(text)} is not a number`);
  return Number(text.replace('Inf', 'Infinity'));
}

function unescapeText(text: string, allowed: string): string {
  return text.replace(/\\(.?)/gs, (pair, character: string) => {
    if (character === '' || !allowed.includes(character)) throw new Error(`bad escape ${JSON.stringify(pair)}`);
    return character === 'n' ? '\n' : character;
  });
}

function parseSample(line: string): ParsedSample {
  const name = NAME.exec(line)?.[0];
  if (name === undefined) throw new Error('a sample begins with no metric name');
  const labels: Record<string, string> = {};
  let rest = line.slice(name.length);
  if (rest.startsWith('{')) {
    do {
      rest = rest.slice(1);
      const [pair, label = '', value = ''] = /^([a-zA-Z_]\w*)="((?:\\.|[^"\\])*)"/s.exec(rest) ?? [];
      if (pair === undefined) throw new Error(`no label at ${JSON.stringify(rest.slice(0, 40))}`);
      if (Object.hasOwn(labels, label)) throw new Error(`label ${label} twice`);
      labels[label] = unescapeText(value, '\\"n');
      rest = rest.slice(pair.length);
    } while (rest.startsWith(','));
    if (!rest.startsWith('}')) throw new Error(`labels do not end at ${JSON.stringify(rest.slice(0, 40))}`);
    rest = rest.slice(1);
  }
  if (!rest.startsWith(' ')) throw new Error('no space before the value');
  return { name, labels, value: toNumber(rest.slice(1)) };
}

const seriesOf = (name: string, labels: Readonly<Record<string, string>>) =>
  JSON.stringify([name, ...Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))]);

/** Checks that buckets increase in `le` and count, end at +Inf with the total count, and are not interleaved. */
function checkHistogram(name: string, samples: readonly ParsedSample[]): void {
  const groups = new Map<string, { readonly buckets: [number, number][]; readonly others: Map<string, number> }>();
  let previous: string | undefined;
  for (const { name: line, labels, value } of samples) {
    const { le, ...others } = labels;
    const key = seriesOf(name, others);
    if (key !== previous && groups.has(key)) throw new Error(`histogram ${key} is interleaved`);
    previous = key;
    const group = groups.get(key) ?? { buckets: [] as [number, number][], others: new Map<string, number>() };
    groups.set(key, group);
    if (line !== `${name}_bucket`) group.others.set(line.slice(name.length), value);
    else if (le === undefined || !/^(\+Inf|.*[.e].*)$/.test(le)) throw new Error(`le ${le} is not a canonical float`);
    else group.buckets.push([toNumber(le), value]);
  }
  for (const [key, { buckets, others }] of groups) {
    const rises = buckets.every(([le, count], index) => {
      const [lower, below] = buckets[index - 1] ?? [-Infinity, 0];
      return le > lower && count >= below;
    });
    if (!rises) throw new Error(`the buckets of ${key} do not increase`);
    const [last, total] = buckets.at(-1) ?? [];
    if (last !== Infinity) throw new Error(`${key} has no bucket +Inf`);
    if (others.get('_count') !== total) throw new Error(`the count of ${key} differs from its bucket +Inf`);
    if (!others.has('_sum')) throw new Error(`${key} has no sum`);
  }
}

function close(open: Open, format: ParsedFormat): ParsedFamily {
  const { name, type, help, unit, samples } = open;
  if (type === undefined || help === undefined)
    throw new Error(`${name} has no ${help === undefined ? 'HELP' : 'TYPE'}`);
  if (samples.length === 0) throw new Error(`${name} has no samples`);
  if (unit !== undefined && !name.endsWith(`_${unit}`)) throw new Error(`${name} does not end in its unit ${unit}`);
  if (format === 'text' && type === 'counter' && !name.endsWith('_total'))
    throw new Error(`counter ${name} has no _total`);
  if (type === 'histogram') checkHistogram(name, samples);
  for (const { value } of samples) {
    if (type === 'counter' && !(value >= 0)) throw new Error(`counter ${name} is ${value}`);
    if (type === 'info' && value !== 1) throw new Error(`info ${name} is ${value}`);
  }
  return { name, type, help, unit, samples };
}

/** Parses the families of `text` in order. Throws an Error that starts with the line number. */
export function parseExposition(text: string, format: ParsedFormat): ParsedFamily[] {
  const families = new Map<string, ParsedFamily>();
  const series = new Set<string>();
  let open: Open | undefined;

  function finish(): void {
    if (open !== undefined) families.set(open.name, close(open, format));
    open = undefined;
  }

  function describe(line: string): void {
    const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE|UNIT) (\w+) (.*)$/s.exec(line) ?? [];
    if (keyword === undefined) throw new Error('neither a sample nor HELP, TYPE or UNIT');
    if (open?.name !== name) {
      finish();
      if (families.has(name)) throw new Error(`family ${name} is interleaved`);
      open = { name, samples: [] };
    }
    if (open.samples.length > 0) throw new Error(`${keyword} of ${name} after its samples`);
    const field = keyword.toLowerCase() as 'help' | 'type' | 'unit';
    if (open[field] !== undefined) throw new Error(`${keyword} of ${name} twice`);
    if (field === 'unit' && format === 'text') throw new Error('UNIT in the text format');
    if (field === 'type' && !Object.hasOwn(SUFFIXES[format], rest))
      throw new Error(`type ${rest} of ${name} is unknown`);
    if (field === 'help' && format === 'openmetrics' && /(^|[^\\])(\\\\)*"/.test(rest))
      throw new Error('bare quote in HELP');
    open[field] = field === 'help' ? unescapeText(rest, format === 'text' ? '\\n' : '\\n"') : rest;
  }

  function add(line: string): void {
    const sample = parseSample(line);
    if (open?.type === undefined) throw new Error(`sample ${sample.name} before its TYPE`);
    const { name } = open;
    const allowed = SUFFIXES[format][open.type] ?? [];
    if (!allowed.some(suffix => sample.name === name + suffix)) {
      throw new Error(`sample ${sample.name} does not belong to the ${open.type} ${name}`);
    }
    const key = seriesOf(sample.name, sample.labels);
    if (series.has(key)) throw new Error(`duplicate series ${key}`);
    series.add(key);
    open.samples.push(sample);
  }

  const lines = text.split('\n');
  if (lines.pop() !== '') throw new Error(`line ${lines.length + 1}: no line feed at its end`);
  if (format === 'openmetrics' && lines.pop() !== '# EOF') throw new Error(`line ${lines.length + 1}: not # EOF`);
  lines.forEach((line, index) => {
    try {
      if (!line.isWellFormed()) throw new Error('not UTF-8');
      if (line.startsWith('#')) describe(line);
      else add(line);
      if (index === lines.length - 1) finish();
    } catch (error) {
      throw new Error(`line ${index + 1}: ${(error as Error).message}`);
    }
  });
  return [...families.values()];
}
