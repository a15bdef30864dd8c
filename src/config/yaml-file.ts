import {
  type Document,
  isCollection,
  isMap,
  isNode,
  isPair,
  isScalar,
  LineCounter,
  type Node,
  parseDocument,
  Scalar,
  stringify,
  visit,
} from 'yaml';
import { type Fault, formatPath, type Place } from './faults.ts';

export interface YamlFile {
  /** As far as it could be read. */
  readonly content: unknown;
  /** Why it is no YAML that is taken here. */
  readonly faults: readonly Fault[];
  /** Whether the rest of the file is unreliable after a fault. */
  readonly isBroken: boolean;
  /** The deepest node on the way to `path`; with `key`, the place of that key in it. */
  place(path: readonly PropertyKey[], key?: string): Place;
  /** Whether what `place` finds was surely read as it was meant: it is no fault of YAML, and ends before what breaks the file. */
  isSure(path: readonly PropertyKey[], key?: string): boolean;
}

/** A value as YAML text, long lines left whole. */
export function writeYaml(value: object): string {
  return stringify(value, { lineWidth: 0 });
}

/** Where a fault of YAML really is, and what to write instead. `at`: offset in the text. */
interface Told {
  readonly at: number;
  readonly message: string;
}

const QUOTES = 'text that begins with { [ ] } , # & * ! | > \' " % @ or ` goes in quotes';
const COLUMN = 'starts in the wrong column: all keys of a section, and all items of a list, start in the same column';

/** The line at an offset: where it begins, its indentation, and the first line after it that is not blank. */
function lineAt(text: string, offset: number) {
  const start = text.lastIndexOf('\n', offset - 1) + 1;
  const indent = /^ */.exec(text.slice(start))?.[0].length ?? 0;
  const end = text.indexOf('\n', offset);
  const next = end === -1 ? null : /^(?:[ \t]*\n)*( *)\S/.exec(text.slice(end + 1));
  const nextStart = next ? end + 1 + next[0].length - 1 : undefined;
  return {
    start,
    indent,
    next: next && nextStart !== undefined ? { at: nextStart, indent: (next[1] ?? '').length } : undefined,
  };
}

/** Explains a key that continues in the next line: wrong indentation or a missing colon. */
function ofManyLines(text: string, at: number): Told {
  const { indent, next } = lineAt(text, at);
  if (next && next.indent > indent) {
    return {
      at: next.at,
      message: `is indented by ${next.indent}, deeper than the line above, which already has a value; all keys of a section start in the same column`,
    };
  }
  return { at, message: 'must be a key: a name, a colon and a space' };
}

/** Explains an error of the parser. Its own message may quote a secret of the file, so only its kind is used. */
function yamlWords(code: string, said: string, text: string, range: readonly [number, number]): Told {
  const [at] = range;
  const tell = (message: string): Told => ({ at, message });
  const isOfLines = text.slice(...range).includes('\n');
  // In braces and brackets those of a variable are taken for more of them.
  const [, variable] = /^\$\{([A-Za-z_]\w*)/.exec(text.slice(at - 1)) ?? [];
  if (variable !== undefined) {
    return {
      at: at - 1,
      message: `variables are not expanded here; write a secret as { env: ${variable} }, anything else as the value itself`,
    };
  }
  switch (code) {
    case 'BLOCK_AS_IMPLICIT_KEY': {
      const { indent, start, next } = lineAt(text, at);
      const isAlone = !/:\s.*:(\s|$)/.test(text.slice(start, text.indexOf('\n', at) >>> 0));
      if (isAlone && next && next.indent > indent) return ofManyLines(text, at);
      return tell('must be one value: put text that contains a colon and a space in quotes');
    }
    case 'MULTILINE_IMPLICIT_KEY':
      return isOfLines || !text.slice(at).startsWith('-') ? ofManyLines(text, at) : tell(COLUMN);
    case 'MISSING_CHAR':
      if (said.includes('quote')) return tell('must end with the same quote that it starts with');
      if (said.includes('Sequence item')) {
        const { indent } = lineAt(text, at);
        return tell(
          `is indented by ${indent}, which matches no line above: a list item starts with "- ", and its keys start in the same column`,
        );
      }
      if (said.includes('map values')) return tell('must be a key: a name, a colon and a space');
      return tell('must have a comma between items in { } or [ ], and a colon and a space after a key');
    case 'BAD_INDENT':
      return tell(said.startsWith('Flow') ? 'a { or [ opened above is not closed' : COLUMN);
    case 'BLOCK_IN_FLOW':
      return tell(
        'must have a comma between items in { } or [ ]; put text that contains a colon and a space in quotes',
      );
    case 'DUPLICATE_KEY':
      return tell('duplicate key');
    case 'BAD_SCALAR_START':
    case 'UNEXPECTED_TOKEN':
      return tell(`is not expected here: ${QUOTES}`);
    case 'TAG_RESOLVE_FAILED':
      return tell('tags are not allowed; put text that begins with ! in quotes');
    case 'MULTIPLE_DOCS':
      return tell('must be one document: --- starts another');
    case 'BAD_DQ_ESCAPE':
      return tell('must be an escape such as \\n: in double quotes \\ starts one, in single quotes it does not');
    case 'NON_STRING_KEY':
      return tell('must be text as a key');
    default:
      return tell(`not valid YAML here: ${code.toLowerCase().replaceAll('_', ' ')}`);
  }
}

/** Codes after which the rest of the file is read as it was meant. */
const HARMLESS: readonly string[] = [
  'DUPLICATE_KEY',
  'TAG_RESOLVE_FAILED',
  'MULTIPLE_DOCS',
  'BAD_DQ_ESCAPE',
  'NON_STRING_KEY',
  'BAD_SCALAR_START',
];

/** Where the text in quotes begins that goes on to `end`. */
function openQuote(document: Document, end: number): number {
  let start = end;
  visit(document, {
    Scalar(_key, { type, range }) {
      if (range && (type === 'QUOTE_DOUBLE' || type === 'QUOTE_SINGLE') && range[1] >= end) start = range[0];
    },
  });
  return start;
}

/** Reads a file up to the top-level key of the section with the tab: the parser misreads the rest. */
function readBeforeTab(text: string, tab: number, file: string, fault: Fault): YamlFile {
  const keys = [...text.slice(0, tab).matchAll(/^[^\s#-]/gm)];
  const before = readYaml(text.slice(0, keys.at(-1)?.index ?? 0), file);
  return { ...before, faults: [...before.faults, fault], isBroken: true };
}

export function readYaml(text: string, file: string): YamlFile {
  const lines = new LineCounter();
  // Pretty errors would quote the faulty line, which may hold a secret.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const at = (offset: number, path: readonly PropertyKey[] = []): Place => {
    const { line, col } = lines.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col), path: formatPath(path) };
  };
  const tab = document.errors.find(({ code }) => code === 'TAB_AS_INDENT')?.pos[0];
  if (tab !== undefined) {
    const message = 'must be indented with spaces, not tabs';
    return readBeforeTab(text, tab, file, { ...at(tab), message });
  }
  const found = new Map<number, string>();
  let brokenAt = Number.POSITIVE_INFINITY;
  const tell = (offset: number, message: string) => {
    if (!found.has(offset)) found.set(offset, message);
  };
  for (const { code, message, pos } of [...document.errors, ...document.warnings]) {
    // Later errors are consequences of the first.
    if (pos[0] >= brokenAt) continue;
    // The parser misses a quote at the end of the file: what the operator forgot is in the line where it begins.
    const start = message.includes('closing') ? openQuote(document, pos[0]) : pos[0];
    const told = yamlWords(code, message, text, [start, pos[1]]);
    tell(told.at, told.message);
    if (!HARMLESS.includes(code)) brokenAt = Math.min(brokenAt, start);
  }
  visit(document, {
    Alias(_key, alias) {
      const offset = alias.range?.[0] ?? 0;
      tell(offset, 'aliases are not allowed; put text that begins with * in quotes');
      const nothing = new Scalar(null);
      nothing.range = alias.range ?? null;
      return nothing;
    },
    Pair(_key, pair) {
      if (isScalar(pair.key) || !isNode(pair.key)) return undefined;
      if (!Number.isFinite(brokenAt)) {
        tell(pair.key.range?.[0] ?? 0, 'must be text as a key; text that begins with { or [ goes in quotes');
      }
      return visit.REMOVE;
    },
  });

  function nodeAt(path: readonly PropertyKey[], key?: string): Node | null {
    let node: Node | null = document.contents;
    for (const step of path) {
      const next: unknown = isCollection(node) ? node.get(step, true) : undefined;
      if (!isNode(next)) break;
      node = next;
    }
    const pair =
      key !== undefined && isMap(node)
        ? node.items.find(item => isPair(item) && isScalar(item.key) && item.key.value === key)
        : undefined;
    return (pair?.key as Node | undefined) ?? node;
  }

  return {
    content: document.toJS(),
    faults: [...found].map(([offset, message]) => ({ ...at(offset), message })),
    isBroken: Number.isFinite(brokenAt),
    place: (path, key) => at(nodeAt(path, key)?.range?.[0] ?? 0, key === undefined ? path : [...path, key]),
    isSure(path, key) {
      const [start, end] = nodeAt(path, key)?.range ?? [0, 0];
      return end <= brokenAt && !found.has(start);
    },
  };
}
