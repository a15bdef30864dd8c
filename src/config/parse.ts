import type { z } from 'zod';
import { type LocatedError, toErrors, valueAt } from './errors.ts';
import { createAllowedKeys } from './json-schema.ts';
import type { YamlFile } from './yaml-file.ts';

/** Parses the content of a file. Returns either the result or all issues of the schema. */
export function parseContent<T>(
  schema: z.ZodType<T>,
  value: unknown,
  locate: YamlFile['locate'],
): { readonly data?: T | undefined; readonly errors: readonly LocatedError[] } {
  // `jitless`: compiling the schemas takes longer than parsing one configuration.
  const { data, error } = schema.safeParse(value, { jitless: true });
  const allowed = createAllowedKeys(schema);
  const errors = error?.issues.flatMap(issue => toErrors(issue, locate, allowed, path => valueAt(value, path)));
  return { data, errors: errors ?? [] };
}
