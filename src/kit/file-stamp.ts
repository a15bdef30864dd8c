import { statSync } from 'node:fs';

/**
 * Text that changes with what a path leads to: another file behind a link, or one that was written, truncated or given other
 * permissions. Where nothing can be seen there, why.
 */
export function fileStamp(path: string): string {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'error';
  }
}
