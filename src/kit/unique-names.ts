import type { z } from 'zod';

/** Rejects lists with duplicate names. The error points to the second name. */
export function uniqueNames(items: readonly { readonly name: string }[], context: z.RefinementCtx): void {
  const names = new Set<string>();
  for (const [index, { name }] of items.entries()) {
    if (names.has(name)) {
      context.addIssue({ code: 'custom', path: [index, 'name'], message: `must be unique; ${name} exists already` });
    }
    names.add(name);
  }
}
