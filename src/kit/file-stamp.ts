import { statSync } from 'node:fs';

/** Returns text that changes when the file is replaced or modified or its permissions change; an error code if stat fails. */
export function fileStamp(path: string): string {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'error';
  }
}
