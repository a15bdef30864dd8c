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
import { HARMLESS, yamlWords } from './yaml-words.ts';

/** A place in a file; both count from 1. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** One fault of a configuration, with its place. */
export interface Fault extends Place {
  /** Key path such as `accounts[0].token`; empty for the whole file. */
  readonly path: string;
  readonly message: string;
}

export interface YamlFile {
  /** As far as it could be read. */
  readonly content: unknown;
  /** Why it is no YAML that is taken here. */
  readonly faults: readonly Fault[];
  /** Whether it has a fault after which nothing is sure: what is missing may stand there. */
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

export function readYaml(text: string, file: string): YamlFile {
  const lines = new LineCounter();
  // Pretty errors would quote the faulty line, which may hold a secret.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const at = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col) };
  };
  const found = new Map<number, string>();
  let brokenAt = Number.POSITIVE_INFINITY;
  const tell = (offset: number, message: string) => {
    if (!found.has(offset)) found.set(offset, message);
  };
  for (const { code, message, pos } of [...document.errors, ...document.warnings]) {
    // What follows from a fault says nothing of its own.
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
    faults: [...found].map(([offset, message]) => ({ ...at(offset), path: '', message })),
    isBroken: Number.isFinite(brokenAt),
    place: (path, key) => at(nodeAt(path, key)?.range?.[0] ?? 0),
    isSure(path, key) {
      const [start, end] = nodeAt(path, key)?.range ?? [0, 0];
      return end <= brokenAt && !found.has(start);
    },
  };
}
