import { createHash } from 'node:crypto';
import { accessSync, constants, readFileSync } from 'node:fs';
import { isCollection, isMap, isNode, isScalar, LineCounter, type Node, parseDocument, visit } from 'yaml';
import type { z } from 'zod';
import { faultOfSecret } from '../upstream/options.ts';
import { allowedKeys } from './json-schema.ts';
import { Config } from './schema.ts';

/** One fault of a configuration file, with its place. `line` and `column` count from 1. */
export interface Fault {
  readonly line: number;
  readonly column: number;
  /** Key path such as `accounts[0].token`; empty for the whole file. */
  readonly path: string;
  readonly message: string;
}

/** A configuration that can't be used. The message has one line per fault, `FILE:line:column: path: what is allowed`. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly faults: readonly Fault[];

  constructor(file: string, faults: readonly Fault[]) {
    super(faults.map(fault => formatFault(file, fault)).join('\n'));
    this.faults = faults;
  }
}

export interface LoadedConfig {
  readonly file: string;
  readonly config: Config;
  /** First 16 hexadecimal digits of the file's SHA-256. */
  readonly hash: string;
  /** Things that work and should be otherwise. */
  readonly warnings: readonly Fault[];
}

export function formatFault(file: string, { line, column, path, message }: Fault): string {
  return `${file}:${line}:${column}: ${path === '' ? '' : `${path}: `}${message}`;
}

function isReadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

function formatPath(path: readonly PropertyKey[]): string {
  return path
    .map(step => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`))
    .join('')
    .replace(/^\./, '');
}

/** Reads and checks a configuration file. Throws ConfigError with every fault. `env` holds what `{ env: NAME }` names. */
export function loadConfig(file: string, env: Readonly<Record<string, string | undefined>>): LoadedConfig {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code ?? 'error';
    throw new ConfigError(file, [{ line: 1, column: 1, path: '', message: `can't be read: ${why}` }]);
  }
  return parseConfig(text, file, env);
}

export function parseConfig(
  text: string,
  file: string,
  env: Readonly<Record<string, string | undefined>>,
): LoadedConfig {
  const lines = new LineCounter();
  // Pretty errors would quote the faulty line, which may hold a secret.
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const at = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };

  // The parser's own words may quote the file; its codes do not.
  const syntax = [...document.errors, ...document.warnings].map(({ pos, code }) => ({
    ...at(pos[0]),
    path: '',
    message: `not valid YAML here: ${code.toLowerCase().replaceAll('_', ' ')}`,
  }));
  visit(document, {
    Alias: (_key, alias) =>
      void syntax.push({
        ...at(alias.range?.[0] ?? 0),
        path: '',
        message: 'aliases are not allowed; put text that begins with * in quotes',
      }),
  });
  if (syntax.length > 0) throw new ConfigError(file, syntax);

  /** The deepest node on the way to `path`; with `key`, the place of that key in it. */
  function place(path: readonly PropertyKey[], key?: string): { line: number; column: number } {
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
  }

  const parsed = Config.safeParse(document.toJS() ?? {});
  if (!parsed.success) {
    throw new ConfigError(
      file,
      parsed.error.issues.flatMap(issue => toFaults(issue, place)),
    );
  }
  const faults: Fault[] = [];
  const warnings: Fault[] = [];
  parsed.data.accounts.forEach(({ token }, index) => {
    const path = ['accounts', index, 'token'];
    const fault = (message: string): Fault => ({ ...place(path), path: formatPath(path), message });
    const wrong = faultOfSecret(token, env);
    if (wrong) faults.push(fault(wrong));
    if ('file' in token && !isReadable(token.file)) warnings.push(fault(`${token.file} can't be read now`));
    if ('literal' in token)
      warnings.push(fault('the token stands in the file; { env: NAME } or { file: PATH } keep it out'));
  });
  if (faults.length > 0) throw new ConfigError(file, faults);
  return { file, config: parsed.data, hash: createHash('sha256').update(text).digest('hex').slice(0, 16), warnings };
}

function toFaults(
  issue: z.core.$ZodIssue,
  place: (path: readonly PropertyKey[], key?: string) => { line: number; column: number },
): Fault[] {
  const { path } = issue;
  if (issue.code === 'unrecognized_keys') {
    const allowed = allowedKeys(path).join(', ');
    return issue.keys.map(key => ({
      ...place(path, key),
      path: formatPath([...path, key]),
      message: `unknown key; allowed here: ${allowed}`,
    }));
  }
  const missing = issue.code === 'invalid_type' && issue.message.endsWith('received undefined');
  const message = missing
    ? `is required: ${issue.message.replace(/, received undefined$/, '').replace(/^Invalid input: /, '')}`
    : issue.message;
  return [{ ...place(path), path: formatPath(path), message: message.replace(/^Invalid input: /, '') }];
}
