import { z } from 'zod';
import type { Path } from './errors.ts';
import { ConfigInput } from './schema.ts';

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

/** Returns a function that lists the keys allowed at a path, in documented order. */
export function createAllowedKeys(schema: z.ZodType) {
  let created: JsonSchema | undefined;
  return (path: Path): readonly string[] => {
    created ??= inputSchema(schema);
    const at = schemaAt(path, created);
    return Object.keys(at?.properties ?? {}).concat((at?.propertyNames?.enum ?? []).map(String));
  };
}
