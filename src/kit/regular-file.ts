import type { Stats } from 'node:fs';

/** Maximum size of a file with a secret (bytes). */
export const MAX_SECRET_BYTES = 65_536;

/** Returns why a file should not be read, or undefined. Reading a pipe or device may block the process, or never end. */
export function whyNotRead(stats: Stats, maxBytes: number): string | undefined {
  if (!stats.isFile()) return 'it is not a regular file';
  return stats.size > maxBytes ? `it has more than ${maxBytes} bytes` : undefined;
}
