import { z } from 'zod';
import { ConfigInput } from './schema.ts';

export interface JsonSchema {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly propertyNames?: JsonSchema;
}

/** The configuration's JSON Schema (draft 2020-12), as users write it: durations are text, defaults may be left out. */
export function configJsonSchema(): JsonSchema {
  return z.toJSONSchema(ConfigInput, { io: 'input' }) as JsonSchema;
}

/** The part of the schema that describes the value at `path`; undefined where the configuration has no such place. */
function schemaAt(path: readonly PropertyKey[]): JsonSchema | undefined {
  let at: JsonSchema | undefined = configJsonSchema();
  for (const step of path) at = typeof step === 'number' ? at?.items : at?.properties?.[String(step)];
  return at;
}

/** The keys that are allowed at `path`, in the order of the documentation. */
export function allowedKeys(path: readonly PropertyKey[]): readonly string[] {
  const at = schemaAt(path);
  return Object.keys(at?.properties ?? {}).concat((at?.propertyNames?.enum ?? []).map(String));
}
