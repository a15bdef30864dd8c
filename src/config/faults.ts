import type { z } from 'zod';
import { printable } from '../kit/text.ts';

type Path = readonly PropertyKey[];

/** A place in a file; both count from 1. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** Key path such as `accounts[0].token`; empty for the whole file. */
  readonly path: string;
}

export interface Fault extends Place {
  readonly message: string;
}

export const byPlace = (a: Fault, b: Fault) => a.line - b.line || a.column - b.column;

export function formatFault({ file, line, column, path, message }: Fault): string {
  return printable(`${file}:${line}:${column}: ${path === '' ? '' : `${path}: `}${message}`);
}

export function formatPath(path: readonly PropertyKey[]): string {
  return path
    .map(step => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`))
    .join('')
    .replace(/^\./, '');
}

/** An invalid configuration. The message has one line per fault: `FILE:line:column: path: what is allowed`. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly faults: readonly Fault[];
  readonly warnings: readonly Fault[];

  constructor(faults: readonly Fault[], warnings: readonly Fault[] = []) {
    super(faults.map(formatFault).join('\n'));
    this.faults = faults;
    this.warnings = warnings;
  }
}

/** Receives the findings of checks with their paths. */
export interface Tell {
  fault(path: readonly PropertyKey[], message: string): void;
  /** Works, and should be otherwise. */
  warn(path: readonly PropertyKey[], message: string): void;
  /** Whether the path has a value of its own, not an inherited one. */
  isGiven(path: readonly PropertyKey[]): boolean;
}

/** Names that may be used elsewhere. */
export interface Known {
  readonly accounts: readonly string[];
  readonly alerts: readonly string[];
  readonly notifiers: readonly string[];
}

/** Returns the message for an unknown name. `existing`: the known names. */
export function noSuchName(kind: string, name: string, existing: readonly string[]): string {
  return `there is no ${kind} called ${name}${existing.length === 0 ? '' : `; there are: ${existing.join(', ')}`}`;
}

/** Reports unknown names in a list at `path`. */
export function checkNames(kind: string, used: readonly string[], existing: readonly string[], path: Path, tell: Tell) {
  for (const [number, name] of used.entries()) {
    if (!existing.includes(name)) tell.fault([...path, number], noSuchName(kind, name, existing));
  }
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'a section of keys',
  record: 'a section of keys',
  array: 'a list',
};

/** A suggestion for a value of the wrong type. */
function hintOf(expected: string, value: unknown): string {
  const isText = typeof value === 'string';
  if (expected === 'boolean' && isText && /^(true|false)$/.test(value)) return ', without quotes';
  if (expected === 'boolean' && isText && /^(y|yes|on)$/i.test(value)) return ': in YAML 1.2 this is text; write true';
  if (expected === 'boolean' && isText && /^(n|no|off)$/i.test(value)) return ': in YAML 1.2 this is text; write false';
  if (/^(number|int)$/.test(expected) && isText && /^-?[\d.]+$/.test(value)) return ', without quotes';
  if (expected === 'string' && /^(number|boolean)$/.test(typeof value)) return ': put it in quotes';
  if (expected === 'array' && /^(string|number|boolean)$/.test(typeof value)) return ', such as [one, another]';
  return '';
}

/** A bound as people read it: `at most 10`, `above 0`. */
function boundWords(origin: string, inclusive: boolean | undefined, bound: unknown, side: 'most' | 'least'): string {
  const strictly = side === 'most' ? 'below' : 'above';
  if (origin === 'string')
    return bound === 1 && side === 'least' ? 'must not be empty' : `must have at ${side} ${bound} characters`;
  if (origin === 'array') return `must have at ${side} ${bound} ${bound === 1 ? 'item' : 'items'}`;
  return `must be ${inclusive === false ? strictly : `at ${side}`} ${bound}`;
}

/** Explains an issue. Messages of the schemas are kept; zod's own are replaced, because they name no allowed value. */
function wordsOf(issue: z.core.$ZodIssue, value: unknown): string {
  const { code, message } = issue;
  const isOurs = !/^(Invalid|Too|Unrecognized)\b/.test(message);
  const must = () => {
    if (code === 'invalid_type')
      return `must be ${KINDS[issue.expected] ?? issue.expected}${hintOf(issue.expected, value)}`;
    if (code === 'too_big') return boundWords(issue.origin, issue.inclusive, issue.maximum, 'most');
    if (code === 'too_small') return boundWords(issue.origin, issue.inclusive, issue.minimum, 'least');
    if (code === 'invalid_value') return `must be one of ${issue.values.map(String).join(', ')}`;
    return message.replace(/^Invalid input: /, '');
  };
  const words = isOurs ? message : must();
  if (value === undefined && /^invalid_(type|union|value)$/.test(code)) return `is required: ${words}`;
  return value === null && !isOurs ? `is empty: ${words}` : words;
}

/** Converts an issue of zod. `locate` finds the place of a path, `allowed` the keys at a path, `valueAt` the value there. */
export function toFaults(
  issue: z.core.$ZodIssue,
  locate: (path: Path, key?: string) => Place,
  allowed: (path: Path) => readonly string[],
  valueAt: (path: Path) => unknown,
): Fault[] {
  const { path } = issue;
  if (issue.code === 'unrecognized_keys') {
    const message = `unknown key; allowed here: ${allowed(path).join(', ')}`;
    return issue.keys.map(key => ({ ...locate(path, key), message }));
  }
  // The key of a record that its schema does not take: what is wrong with it stands one level below.
  if (issue.code === 'invalid_key') return issue.issues.flatMap(({ message }) => ({ ...locate(path), message }));
  return [{ ...locate(path), message: wordsOf(issue, valueAt(path)) }];
}
