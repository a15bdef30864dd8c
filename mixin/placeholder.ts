import type { PlaceholderName } from '../src/cli/shipped.ts';

export type Placeholder = `<<${PlaceholderName}>>`;

/** Returns a placeholder, which `rules print` and `dashboards print` replace with a user's value. */
export const placeholder = (name: PlaceholderName): Placeholder => `<<${name}>>`;
