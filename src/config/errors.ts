import type { z } from 'zod';
import { printable, someOf } from '../kit/text.ts';

/** Path of a setting: keys and indexes. */
export type Path = readonly PropertyKey[];

/** A place in a file. Lines and columns start at 1. */
export interface FileLocation {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** Path of the setting, such as `accounts[0].token`; empty for the whole file. */
  readonly path: string;
}

export interface LocatedError extends FileLocation {
  readonly message: string;
}

/** Sorts errors by file (in order of first appearance) and position. Removes duplicates. */
export function sortedErrors(errors: readonly LocatedError[]): LocatedError[] {
  const files = Map.groupBy(errors, ({ file }) => file);
  const inOrder = [...files.values()].flatMap(each => each.toSorted((a, b) => a.line - b.line || a.column - b.column));
  return [...new Map(inOrder.map(each => [formatError(each), each])).values()];
}

/** Formats an error without its file and position, such as `accounts[0].token: must be text`. */
export const withPath = (path: string, message: string) => (path === '' ? message : `${path}: ${message}`);

export function formatError({ file, line, column, path, message }: LocatedError): string {
  return printable(`${file}:${line}:${column}: ${withPath(path, message)}`);
}

export function formatPath(path: Path): string {
  return path
    .map(step => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`))
    .join('')
    .replace(/^\./, '');
}

/** Returns the value at a path, or undefined. */
export function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (part, step) =>
      typeof part === 'object' && part !== null ? (part as Record<PropertyKey, unknown>)[step] : undefined,
    value,
  );
}

/** An invalid configuration. The message has one line per error: `FILE:line:column: path: what is allowed`. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly errors: readonly LocatedError[];
  readonly warnings: readonly LocatedError[];

  constructor(errors: readonly LocatedError[], warnings: readonly LocatedError[] = []) {
    const inOrder = sortedErrors(errors);
    super(inOrder.map(formatError).join('\n'));
    this.errors = inOrder;
    this.warnings = sortedErrors(warnings);
  }
}

/** Collects errors and warnings by path. */
export interface Reporter {
  error(path: Path, message: string): void;
  /** Reports a valid setting that is probably a mistake. */
  warn(path: Path, message: string): void;
  /** Whether the file sets the path. Inherited values and defaults do not count. */
  isGiven(path: Path): boolean;
}

/** Returns the message for a reference to an environment variable in text. */
export const notExpanded = (variable: string) =>
  `variables are not expanded here; write a secret as { env: ${variable} }, anything else as the value itself`;

/** Returns the message for an unknown name. `existing`: the declared names. */
export function noSuchName(kind: string, name: string, existing: readonly string[]): string {
  return `there is no ${kind} called ${name}${existing.length === 0 ? '' : `; there are: ${someOf(existing)}`}`;
}

export function checkNames(
  kind: string,
  used: readonly string[],
  existing: readonly string[],
  path: Path,
  report: Reporter,
) {
  for (const [number, name] of used.entries()) {
    if (!existing.includes(name)) report.error([...path, number], noSuchName(kind, name, existing));
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

/** Whether a YAML value is null, a number or a boolean. */
const isBare = (value: unknown) => value === null || /^(number|boolean)$/.test(typeof value);

/** Describes a bound: `must be at most 10`, `must be above 0`. */
function boundWords(origin: string, inclusive: boolean | undefined, bound: unknown, side: 'most' | 'least'): string {
  const strictly = side === 'most' ? 'below' : 'above';
  if (origin === 'string')
    return bound === 1 && side === 'least' ? 'must not be empty' : `must have at ${side} ${bound} characters`;
  if (origin === 'array') return `must have at ${side} ${bound} ${bound === 1 ? 'item' : 'items'}`;
  return `must be ${inclusive === false ? strictly : `at ${side}`} ${bound}`;
}

/** Returns a message of our schemas unchanged, and replaces zod's messages, which do not name the allowed values. */
function messageOf(issue: z.core.$ZodIssue, value: unknown): string {
  const { code, message } = issue;
  const isOurs = !/^(Invalid|Too|Unrecognized)\b/.test(message);
  const must = () => {
    if (code === 'invalid_type') return `must be ${KINDS[issue.expected] ?? issue.expected}`;
    if (code === 'too_big') return boundWords(issue.origin, issue.inclusive, issue.maximum, 'most');
    if (code === 'too_small') return boundWords(issue.origin, issue.inclusive, issue.minimum, 'least');
    if (code === 'invalid_value') return `must be one of ${issue.values.map(String).join(', ')}`;
    return message.replace(/^Invalid input: /, '');
  };
  const requirement = isOurs ? message : must();
  // A requirement that mentions text belongs to a setting that accepts any text.
  const isForText = code !== 'invalid_value' && /\btext\b/.test(requirement);
  const words = isForText && value !== null && isBare(value) ? `${requirement}: put it in quotes` : requirement;
  if (value === undefined && /^invalid_(type|union|value)$/.test(code)) return `is required: ${words}`;
  return value === null && !isOurs ? `is empty: ${words}` : words;
}

/** Returns the issues of a value's wrong parts if an alternative of a union accepts the rest; otherwise returns `issue`. */
function wrongParts(issue: z.core.$ZodIssue, valueAt: (path: Path) => unknown): readonly z.core.$ZodIssue[] {
  if (issue.code !== 'invalid_union') return [issue];
  const alternatives = issue.errors.map(issues =>
    issues.map(part => ({ ...part, path: [...issue.path, ...part.path] })),
  );
  const isPart = ({ path, code }: z.core.$ZodIssue) =>
    code !== 'unrecognized_keys' && path.length > issue.path.length && isBare(valueAt(path));
  const parts = alternatives.find(issues => issues.length > 0 && issues.every(isPart));
  return parts?.flatMap(part => wrongParts(part, valueAt)) ?? [issue];
}

/**
 * Converts a zod issue. `locate` returns a path's place in the file, `allowed` returns the keys allowed at a path, and
 * `valueAt` returns the value there.
 */
export function toErrors(
  issue: z.core.$ZodIssue,
  locate: (path: Path, key?: string) => FileLocation,
  allowed: (path: Path) => readonly string[],
  valueAt: (path: Path) => unknown,
): LocatedError[] {
  const { path } = issue;
  if (issue.code === 'unrecognized_keys') {
    const message = `unknown key; allowed here: ${allowed(path).join(', ')}`;
    return issue.keys.map(key => ({ ...locate(path, key), message }));
  }
  if (issue.code === 'invalid_key') return issue.issues.flatMap(({ message }) => ({ ...locate(path), message }));
  return wrongParts(issue, valueAt).map(part => ({
    ...locate(part.path),
    message: messageOf(part, valueAt(part.path)),
  }));
}
