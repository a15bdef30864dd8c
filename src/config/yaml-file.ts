import { isCollection, isMap, isNode, isScalar, LineCounter, type Node, parseDocument, stringify, visit } from 'yaml';

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
  readonly content: unknown;
  /** Why it is no YAML that is taken here. */
  readonly faults: readonly Fault[];
  /** The deepest node on the way to `path`; with `key`, the place of that key in it. */
  place(path: readonly PropertyKey[], key?: string): Place;
}

/** A value as YAML text, long lines left whole. */
export function writeYaml(value: object): string {
  return stringify(value, { lineWidth: 0 });
}

export function readYaml(text: string, file: string): YamlFile {
  const lines = new LineCounter();
  // Pretty errors would quote the faulty line, which may hold a secret.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const at = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { file, line: Math.max(1, line), column: Math.max(1, col) };
  };
  // The parser's own words may quote the file; its codes do not.
  const faults = [...document.errors, ...document.warnings].map(({ pos, code }) => ({
    ...at(pos[0]),
    path: '',
    message: `not valid YAML here: ${code.toLowerCase().replaceAll('_', ' ')}`,
  }));
  visit(document, {
    Alias: (_key, alias) =>
      void faults.push({
        ...at(alias.range?.[0] ?? 0),
        path: '',
        message: 'aliases are not allowed; put text that begins with * in quotes',
      }),
  });
  return {
    content: faults.length > 0 ? undefined : document.toJS(),
    faults,
    place(path, key) {
      let node: Node | null = document.contents;
      for (const step of path) {
        const next: unknown = isCollection(node) ? node.get(step, true) : undefined;
        if (!isNode(next)) break;
        node = next;
      }
      const pair =
        key !== undefined && isMap(node)
          ? node.items.find(({ key: name }) => isScalar(name) && name.value === key)
          : undefined;
      const range = (pair?.key as Node | undefined)?.range ?? node?.range;
      return at(range?.[0] ?? 0);
    },
  };
}
