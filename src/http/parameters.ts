import type { z } from 'zod';

/** What a query says; or one sentence on why it can't be used, with each parameter and what is allowed for it. */
export type ReadQuery<T> = { readonly query: T; readonly error?: undefined } | { readonly error: string };

function wordsOf(
  issue: z.core.$ZodIssue,
  given: Readonly<Record<string, unknown>>,
  allowed: readonly string[],
): string {
  if (issue.code === 'unrecognized_keys') {
    const known = allowed.length > 0 ? `allowed are ${allowed.join(', ')}` : 'none is allowed';
    return `${issue.keys.length > 1 ? 'unknown parameters' : 'unknown parameter'} ${issue.keys.join(', ')}: ${known}`;
  }
  const [name] = issue.path;
  // What may be given more than once says so itself.
  const isTwice = Array.isArray(given[String(name)]) && !issue.message.includes('given');
  return `${String(name)} ${isTwice ? 'must be given once' : issue.message}`;
}

/** Unknown parameters are errors: a misspelt one would else be taken for its default. */
export function readQuery<T extends z.ZodObject>(
  schema: T,
  given: Readonly<Record<string, unknown>>,
): ReadQuery<z.output<T>> {
  const { data, error } = schema.strict().safeParse(given);
  if (!error) return { query: data as z.output<T> };
  const words = error.issues.map(issue => wordsOf(issue, given, Object.keys(schema.shape)));
  return { error: [...new Set(words)].join('; ') };
}
