import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncFolder } from './durable-file.ts';

function ignoreExisting(make: () => void): void {
  try {
    make();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Creates an empty file with mode 0600 unless the path exists. */
export function createPrivateFile(path: string): void {
  ignoreExisting(() => closeSync(openSync(path, 'wx', 0o600)));
}

/**
 * Creates a folder and its missing parents. Returns the parent of each new folder. Node's recursive mkdir never returns in
 * places such as /proc.
 */
export function createFolder(path: string, mode = 0o777): string[] {
  if (existsSync(path)) return [];
  const above = dirname(path);
  const changed = createFolder(above, mode);
  ignoreExisting(() => mkdirSync(path, mode));
  return [...changed, above];
}

/** Like `createFolder`, with mode 0700. New folders survive a power cut. */
export function createPrivateFolder(path: string): void {
  for (const above of createFolder(path, 0o700)) syncFolder(above);
}
