import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterThisTest } from './client.ts';

/** Creates an empty folder that is deleted after the test. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-'));
  afterThisTest(async () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
