import type { z } from 'zod';
import { type FileLocation, type LocatedError, type Path, toErrors, valueAt } from './errors.ts';
import { createAllowedKeys } from './json-schema.ts';

/** Parses a value. Returns either the result or all issues of the schema. `locate` returns a path's place in the file. */
export function parseContent<T>(
  schema: z.ZodType<T>,
  value: unknown,
  locate: (path: Path, key?: string) => FileLocation,
): { readonly data?: T | undefined; readonly errors: readonly LocatedError[] } {
  // `jitless`: compiling the schemas takes longer than parsing one configuration.
  const { data, error } = schema.safeParse(value, { jitless: true });
  const allowed = createAllowedKeys(schema);
  const errors = error?.issues.flatMap(issue => toErrors(issue, locate, allowed, path => valueAt(value, path)));
  return { data, errors: errors ?? [] };
}
