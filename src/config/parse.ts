import { z } from 'zod';
import { type LocatedError, type Path, toErrors, valueAt } from './errors.ts';
import { ConfigInput } from './schema.ts';
import type { YamlFile } from './yaml-file.ts';

export interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly pattern?: string;
  readonly anyOf?: readonly JsonSchema[];
  readonly propertyNames?: JsonSchema;
}

/** Returns the JSON Schema (draft 2020-12) of the input, in which durations, for example, are text. Slow. */
const inputSchema = (schema: z.ZodType) => z.toJSONSchema(schema, { io: 'input' }) as JsonSchema;

export const configJsonSchema = (): JsonSchema => inputSchema(ConfigInput);

/** Removes the alternative `null`. */
export function withoutNull(schema: JsonSchema): JsonSchema {
  const [first, second, ...more] = schema.anyOf ?? [];
  return first && second?.type === 'null' && more.length === 0 ? first : schema;
}

/** Returns the schema of a path; undefined if the path is unknown. */
function schemaAt(path: Path, schema: JsonSchema): JsonSchema | undefined {
  let at: JsonSchema | undefined = schema;
  for (const step of path) {
    const next: JsonSchema | undefined = typeof step === 'number' ? at?.items : at?.properties?.[String(step)];
    at = next && withoutNull(next);
  }
  return at;
}

/** Parses the content of a file. Returns either the result or all issues of the schema. */
export function parseContent<T>(
  schema: z.ZodType<T>,
  value: unknown,
  locate: YamlFile['locate'],
): { readonly data?: T | undefined; readonly errors: readonly LocatedError[] } {
  // `jitless`: compiling the schemas takes longer than parsing one configuration.
  const { data, error } = schema.safeParse(value, { jitless: true });
  let json: JsonSchema | undefined;
  /** Returns the keys allowed at a path, in documented order. */
  const allowed = (path: Path): readonly string[] => {
    json ??= inputSchema(schema);
    const at = schemaAt(path, json);
    return Object.keys(at?.properties ?? {}).concat((at?.propertyNames?.enum ?? []).map(String));
  };
  const errors = error?.issues.flatMap(issue => toErrors(issue, locate, allowed, path => valueAt(value, path)));
  return { data, errors: errors ?? [] };
}
