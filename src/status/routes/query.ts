import type { Request } from 'express';
import type { z } from 'zod';
import { RequestError } from '../lookups.ts';

function wordsOf(issue: z.core.$ZodIssue, given: Request['query'], allowed: readonly string[]): string {
  if (issue.code === 'unrecognized_keys') {
    const known = allowed.length > 0 ? `allowed parameters are ${allowed.join(', ')}` : 'no parameters are allowed';
    return `${issue.keys.length > 1 ? 'unknown parameters' : 'unknown parameter'} ${issue.keys.join(', ')}: ${known}`;
  }
  const [name] = issue.path;
  // Errors of a repeatable parameter are about one of its values or about their number.
  const isTwice = Array.isArray(given[String(name)]) && issue.path.length === 1 && issue.code !== 'too_big';
  return `${String(name)} ${isTwice ? 'must be given once' : issue.message}`;
}

/** Validates a query and returns it. Throws a RequestError that names each invalid parameter and its allowed values. */
export function validQuery<T extends z.ZodObject>(schema: T, given: Request['query']): z.output<T> {
  const { data, error } = schema.safeParse(given);
  if (!error) return data;
  const words = error.issues.map(issue => wordsOf(issue, given, Object.keys(schema.shape)));
  throw new RequestError(400, [...new Set(words)].join('; '));
}
