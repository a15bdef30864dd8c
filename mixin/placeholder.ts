import type { PlaceholderName } from '../src/cli/shipped.ts';

export type Placeholder = `<<${PlaceholderName}>>`;

/** A place in a template where `rules print` and `dashboards print` insert a user's value. */
export const placeholder = (name: PlaceholderName): Placeholder => `<<${name}>>`;
