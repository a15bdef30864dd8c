import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncFolder } from './durable-file.ts';

function unlessThere(make: () => void): void {
  try {
    make();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Makes an empty file that only this user may read and write, unless something is there already. */
export function createPrivateFile(path: string): void {
  unlessThere(() => closeSync(openSync(path, 'wx', 0o600)));
}

/**
 * Makes a folder, and those above it that are missing, and gives the folders that hold a new one. What exists stays as it is.
 * Step by step, because mkdir's own recursion says of a read-only file system that the folder does not exist, and tries for ever
 * where nothing can be made, as in /proc.
 */
export function createFolder(path: string, mode = 0o777): string[] {
  if (existsSync(path)) return [];
  const above = dirname(path);
  const changed = createFolder(above, mode);
  unlessThere(() => mkdirSync(path, mode));
  return [...changed, above];
}

/** The same of folders that only this user may enter. */
export function createPrivateFolder(path: string): void {
  // Synced, the folder above remembers the new one after a power cut.
  for (const above of createFolder(path, 0o700)) syncFolder(above);
}
