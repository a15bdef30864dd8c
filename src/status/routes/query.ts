import type { Request, Response } from 'express';
import type { z } from 'zod';

export const INVALID_ID = 'the message id must be 1 to 200 of A-Z a-z 0-9 _ -';

export const refuse = (response: Response, status: number, error: string) =>
  void response.status(status).json({ error });

function wordsOf(issue: z.core.$ZodIssue, given: Request['query'], allowed: readonly string[]): string {
  if (issue.code === 'unrecognized_keys') {
    const known = allowed.length > 0 ? `allowed parameters are ${allowed.join(', ')}` : 'no parameters are allowed';
    return `${issue.keys.length > 1 ? 'unknown parameters' : 'unknown parameter'} ${issue.keys.join(', ')}: ${known}`;
  }
  const [name] = issue.path;
  // Messages about repeatable parameters contain `given` and are kept.
  const isTwice = Array.isArray(given[String(name)]) && !issue.message.includes('given');
  return `${String(name)} ${isTwice ? 'must be given once' : issue.message}`;
}

/** Returns one sentence with each invalid parameter and its allowed values. */
export function errorsOf({ issues }: z.ZodError, given: Request['query'], { shape }: z.ZodObject): string {
  const words = issues.map(issue => wordsOf(issue, given, Object.keys(shape)));
  return [...new Set(words)].join('; ');
}

/**
 * Returns the query; undefined after responding with 400. Unknown parameters are errors, because the default of a misspelt
 * parameter would be used silently.
 */
export function validQuery<T extends z.ZodObject>(
  schema: T,
  query: Request['query'],
  response: Response,
): z.output<T> | undefined {
  const { data, error } = schema.strict().safeParse(query);
  if (error) refuse(response, 400, errorsOf(error, query, schema));
  return data as z.output<T> | undefined;
}
