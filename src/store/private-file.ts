import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { syncFolder } from '../kit/durable-file.ts';

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
 * Makes a folder that only this user may enter, and those above it that are missing. What exists stays as it is. Step by
 * step, because mkdir's own recursion says of a read-only file system that the folder does not exist.
 */
export function createPrivateFolder(path: string): void {
  if (existsSync(path)) return;
  const above = dirname(path);
  createPrivateFolder(above);
  unlessThere(() => mkdirSync(path, 0o700));
  // Synced, the folder above remembers the new one after a power cut.
  syncFolder(above);
}
