import { statSync } from 'node:fs';

/** Maximum size of a file with a secret (bytes). */
export const MAX_SECRET_BYTES = 65_536;

/**
 * Returns why a file should not be read, or undefined. Reading a pipe or device may block the process, or never end. Throws if the
 * file is missing.
 */
export function whyNotRead(path: string, maxBytes: number): string | undefined {
  const stats = statSync(path);
  if (!stats.isFile()) return 'it is not a regular file';
  return stats.size > maxBytes ? `it has more than ${maxBytes} bytes` : undefined;
}
