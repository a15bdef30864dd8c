import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterThisTest } from './client.ts';

/** An empty folder, which goes with the test. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-'));
  afterThisTest(async () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
