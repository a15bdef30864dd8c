import { statSync } from 'node:fs';

/** Returns text that changes if a path leads to another file or its content or permissions change; an error code if it is unreadable. */
export function fileStamp(path: string): string {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'error';
  }
}
