import { z } from 'zod';

/** The field without its default. */
function bare(field: z.core.$ZodType): z.core.$ZodType {
  return field instanceof z.ZodDefault || field instanceof z.ZodPrefault ? bare(field.unwrap()) : field;
}

/** The same shape with every key optional and no defaults, however deep. */
export function overridesOf(section: z.ZodObject): z.ZodObject {
  const fields = Object.entries(section.shape).map(([key, field]) => {
    const inner = bare(field);
    const override = inner instanceof z.ZodObject ? overridesOf(inner) : (inner as z.ZodType);
    const { description } = field as z.ZodType;
    return [key, description === undefined ? override.optional() : override.optional().describe(description)];
  });
  return z.strictObject(Object.fromEntries(fields));
}

/** A section's value `base` with what `overrides` says instead, key by key where the section has sections. */
export function merge<T extends object>(section: z.ZodObject, base: T, overrides: object): T {
  const merged = { ...base } as Record<string, unknown>;
  for (const [key, value] of Object.entries(overrides)) {
    if (value === undefined) continue;
    const inner = bare(section.shape[key] as z.core.$ZodType);
    merged[key] = inner instanceof z.ZodObject ? merge(inner, merged[key] as object, value as object) : value;
  }
  return merged as T;
}
