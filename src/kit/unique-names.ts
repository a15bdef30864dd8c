import type { z } from 'zod';

/** Reports duplicate names, each at its later occurrence. */
export function uniqueNames(items: readonly { readonly name: string }[], context: z.RefinementCtx): void {
  const names = new Set<string>();
  for (const [index, { name }] of items.entries()) {
    if (names.has(name)) {
      context.addIssue({ code: 'custom', path: [index, 'name'], message: `must be unique; ${name} already exists` });
    }
    names.add(name);
  }
}
