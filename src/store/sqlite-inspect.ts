import { accessSync, constants, existsSync, realpathSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { attachDatabase } from './database.ts';
import { withStoreErrors } from './errors.ts';
import { lockHolder } from './lock.ts';

/** Returns the nearest existing parent folder. */
function folderOf(path: string): string {
  const folder = dirname(resolve(path));
  return existsSync(folder) ? folder : folderOf(folder);
}

/**
 * Inspects the database without a lock, because an agent may be using it. `version`: undefined if the database does not exist
 * yet; `holder`: id of the process that locks it, if known. Throws StoreError if an agent could not start with it.
 */
export function inspectSqlite(path: string) {
  const file = resolve(path);
  const isNew = !statSync(file, { throwIfNoEntry: false })?.size;
  const folder = isNew ? folderOf(file) : dirname(realpathSync(file));
  withStoreErrors(file, () => accessSync(folder, constants.W_OK | constants.X_OK));
  if (isNew) return { file, version: undefined, size: 0, holder: undefined };
  const database = attachDatabase(file);
  try {
    const version = database.db.prepare('PRAGMA user_version').get()?.user_version;
    return { file: database.file, version, size: statSync(database.file).size, holder: lockHolder(database.file) };
  } finally {
    database.close();
  }
}
