import {
  Document,
  isCollection,
  isMap,
  isNode,
  isPair,
  isScalar,
  LineCounter,
  type Node,
  parseDocument,
  Scalar,
  visit,
} from 'yaml';
import { z } from 'zod';
import { escaped } from '../kit/text.ts';
import {
  type FileLocation,
  formatPath,
  type LocatedError,
  notExpanded,
  type Path,
  toErrors,
  valueAt,
} from './errors.ts';
import { ConfigInput } from './schema.ts';

export type YamlFile = ReturnType<typeof readYaml>;

/** Matches line breaks and invalid characters of YAML 1.1, which must be escaped. */
const ESCAPED = /[\x7f-\x9f\u{2028}\u{2029}\u{feff}]/gu;
/** Matches text that parsers of YAML 1.1 reject or change unless it is in double quotes. */
const QUOTED = new RegExp(`^=$|^\\s+$|\\t|${ESCAPED.source}`, 'u');

/** Formats a value as YAML that YAML 1.1 and 1.2 read equally, without folding long lines. */
export function writeYaml(value: object): string {
  const document = new Document(value, { compat: 'yaml-1.1', aliasDuplicateObjects: false });
  visit(document, {
    Scalar(_key, node) {
      if (typeof node.value === 'string' && QUOTED.test(node.value)) node.type = 'QUOTE_DOUBLE';
    },
  });
  return document.toString({ lineWidth: 0 }).replace(ESCAPED, escaped);
}

const QUOTES = 'is not expected here: text that begins with { [ ] } , # & * ! | > \' " % @ or ` goes in quotes';
const COLUMN = 'starts in the wrong column: all keys of a section, and all items of a list, start in the same column';
const KEY = 'must be a key: a name, a colon and a space';

/** Explanations by the parser's error code. The parser's own messages may quote a secret. */
const MESSAGES: Readonly<Record<string, string>> = {
  BLOCK_AS_IMPLICIT_KEY:
    'must be one value: quote text that contains a colon and a space; a key in the next line starts in the column of this key',
  MULTILINE_IMPLICIT_KEY: `${KEY}; all keys of a section, and all items of a list, start in the same column`,
  BAD_INDENT: COLUMN,
  BLOCK_IN_FLOW: 'must have a comma between items in { } or [ ]; quote text that contains a colon and a space',
  TAB_AS_INDENT: 'must be indented with spaces, not tabs',
  DUPLICATE_KEY: 'duplicate key',
  BAD_SCALAR_START: QUOTES,
  UNEXPECTED_TOKEN: QUOTES,
  TAG_RESOLVE_FAILED: 'tags are not allowed; put text that begins with ! in quotes',
  MULTIPLE_DOCS: 'must be one document: --- starts another',
  BAD_DQ_ESCAPE: 'must be an escape such as \\n: in double quotes \\ starts one, in single quotes it does not',
  NON_STRING_KEY: 'must be text as a key',
};

/** Explanations of a missing character, by a word in the parser's message. */
const MISSING: readonly (readonly [word: string, message: string])[] = [
  ['quote', 'must end with the same quote that it starts with'],
  ['Sequence item', `${COLUMN}; a list item starts with "- "`],
  ['map values', KEY],
  ['', 'must have a comma between items in { } or [ ], and a colon and a space after a key'],
];

/** Explains a parser error at an offset. */
function explanationOf(code: string, parserMessage: string, text: string, at: number): { at: number; message: string } {
  // The parser reads the braces of `${NAME}` as a nested collection.
  const [, variable] = /^\$\{([A-Za-z_]\w*)/.exec(text.slice(at - 1)) ?? [];
  if (variable !== undefined) return { at: at - 1, message: notExpanded(variable) };
  const [, missing] = MISSING.find(([word]) => code === 'MISSING_CHAR' && parserMessage.includes(word)) ?? [];
  const isOpen = code === 'BAD_INDENT' && parserMessage.startsWith('Flow');
  const known = isOpen ? 'a { or [ opened above is not closed' : (missing ?? MESSAGES[code]);
  return { at, message: known ?? `not valid YAML here: ${code.toLowerCase().replaceAll('_', ' ')}` };
}

/** Errors after which the rest of the file is reliable. */
const HARMLESS: readonly string[] = [
  'DUPLICATE_KEY',
  'TAG_RESOLVE_FAILED',
  'MULTIPLE_DOCS',
  'BAD_DQ_ESCAPE',
  'NON_STRING_KEY',
  'BAD_SCALAR_START',
];

/** Returns the start of the quoted text that ends at `end`. */
function openQuote(document: Document, end: number): number {
  let start = end;
  visit(document, {
    Scalar(_key, { type, range }) {
      if (range && (type === 'QUOTE_DOUBLE' || type === 'QUOTE_SINGLE') && range[1] >= end) start = range[0];
    },
  });
  return start;
}

/** Matches invisible characters except ASCII spaces, line breaks, and the joiners that emojis and scripts need. */
const INVISIBLE = /(?![ \t\r\n\u{200c}\u{200d}])[\s\p{Cf}\0\u{85}]/u;

export function readYaml(text: string, file: string) {
  const lines = new LineCounter();
  // Pretty errors would quote the line, which may contain a secret.
  // A %YAML or tag directive must not turn text into dates, sets or binary data.
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    schema: 'core',
    resolveKnownTags: false,
  });
  const at = (offset: number, path: Path = []): FileLocation => {
    const { line, col } = lines.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col), path: formatPath(path) };
  };
  const found = new Map<number, string>();
  let brokenAt = Number.POSITIVE_INFINITY;
  const addError = (offset: number, message: string) => {
    if (!found.has(offset)) found.set(offset, message);
  };
  for (const { code, message, pos } of [...document.errors, ...document.warnings]) {
    if (pos[0] >= brokenAt) continue;
    // The parser reports a missing closing quote at the end of the file, not where the string starts.
    const start = message.includes('closing') ? openQuote(document, pos[0]) : pos[0];
    const explained = explanationOf(code, message, text, start);
    addError(explained.at, explained.message);
    if (!HARMLESS.includes(code)) brokenAt = Math.min(brokenAt, start);
  }
  visit(document, {
    Scalar(_key, { type, range }) {
      const hidden = type === 'PLAIN' && range ? INVISIBLE.exec(text.slice(range[0], range[1])) : null;
      if (!hidden || !range) return;
      const name = `U+${hidden[0].codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}`;
      addError(range[0] + hidden.index, `${name} is not a space in YAML; replace it, or put the text in quotes`);
    },
    Alias(_key, alias) {
      const offset = alias.range?.[0] ?? 0;
      addError(offset, 'aliases are not allowed; put text that begins with * in quotes');
      const nothing = new Scalar(null);
      nothing.range = alias.range ?? null;
      return nothing;
    },
    Pair(_key, pair) {
      if (isScalar(pair.key) && typeof pair.key.value !== 'string') {
        const { source = '', range } = pair.key;
        addError(range?.[0] ?? 0, `must be text as a key${source && `: put it in quotes: "${source}"`}`);
        pair.key.value = source;
      }
      if (isScalar(pair.key) || !isNode(pair.key)) return undefined;
      if (!Number.isFinite(brokenAt)) {
        addError(pair.key.range?.[0] ?? 0, 'must be text as a key; text that begins with { or [ goes in quotes');
      }
      return visit.REMOVE;
    },
  });

  function nodeAt(path: Path, key?: string): Node | null {
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
    content: document.toJS() as unknown,
    /** Errors in the YAML syntax, including unsupported syntax. */
    errors: [...found].map(([offset, message]) => ({ ...at(offset), message })),
    /** Whether an error makes later parts of the file unreliable. */
    isBroken: Number.isFinite(brokenAt),
    /** Returns the place of the deepest existing node on `path`, or of its key `key`. */
    locate: (path: Path, key?: string): FileLocation =>
      at(nodeAt(path, key)?.range?.[0] ?? 0, key === undefined ? path : [...path, key]),
    /** Whether the value at a path ends before unreliable parts. */
    isSure: (path: Path): boolean => (nodeAt(path)?.range?.[1] ?? 0) <= brokenAt,
  };
}

export interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly pattern?: string;
  readonly anyOf?: readonly JsonSchema[];
  readonly propertyNames?: JsonSchema;
}

/** Returns the JSON Schema (draft 2020-12) of the input, in which durations, for example, are text. Slow. */
const inputSchema = (schema: z.ZodType) => z.toJSONSchema(schema, { io: 'input' }) as JsonSchema;

export const configJsonSchema = (): JsonSchema => inputSchema(ConfigInput);

/** Removes the alternative `null`. */
export function withoutNull(schema: JsonSchema): JsonSchema {
  const [first, second, ...more] = schema.anyOf ?? [];
  return first && second?.type === 'null' && more.length === 0 ? first : schema;
}

/** Returns the schema of a path; undefined if the path is unknown. */
function schemaAt(path: Path, schema: JsonSchema): JsonSchema | undefined {
  let at: JsonSchema | undefined = schema;
  for (const step of path) {
    const next: JsonSchema | undefined = typeof step === 'number' ? at?.items : at?.properties?.[String(step)];
    at = next && withoutNull(next);
  }
  return at;
}

/** Parses the content of a file. Returns either the result or all issues of the schema. */
export function parseContent<T>(
  schema: z.ZodType<T>,
  value: unknown,
  locate: YamlFile['locate'],
): { readonly data?: T | undefined; readonly errors: readonly LocatedError[] } {
  // `jitless`: compiling the schemas takes longer than parsing one configuration.
  const { data, error } = schema.safeParse(value, { jitless: true });
  let json: JsonSchema | undefined;
  /** Returns the keys allowed at a path, in documented order. */
  const allowed = (path: Path): readonly string[] => {
    json ??= inputSchema(schema);
    const at = schemaAt(path, json);
    return Object.keys(at?.properties ?? {}).concat((at?.propertyNames?.enum ?? []).map(String));
  };
  const issues = error?.issues ?? [];
  /** Paths of objects without any known key, which explains why no alternative is set. */
  const unknown = issues.flatMap(issue =>
    issue.code === 'unrecognized_keys' && Object.keys(Object(valueAt(value, issue.path))).length === issue.keys.length
      ? formatPath(issue.path)
      : [],
  );
  const errors = issues.flatMap(issue => {
    if (unknown.includes(formatPath(issue.path)) && /^must have .* one of /.test(issue.message)) return [];
    return toErrors(issue, locate, allowed, path => valueAt(value, path));
  });
  return { data, errors };
}
