import { execFileSync } from 'node:child_process';
import { openSqliteStore } from '../../src/store/sqlite.ts';

/** Creates and closes a store of about 60 pages. */
export async function makeStore(path: string): Promise<void> {
  const store = await openSqliteStore({ path });
  const rows = Array.from({ length: 200 }, (_, n) => ({ key: String(n), value: `${n}`.repeat(300) }));
  await store.commit('a', rows);
  await store.close();
}

/**
 * Overwrites a page, numbered from 1, in another process: closing the file here would release this process's locks on
 * it.
 */
export function spoilPage(path: string, page: number): void {
  const script = `const fs = require('node:fs'); fs.writeSync(fs.openSync(process.argv[1], 'r+'), Buffer.alloc(4096, 0xa5), 0, 4096, ${(page - 1) * 4096})`;
  execFileSync(process.execPath, ['-e', script, path]);
}
