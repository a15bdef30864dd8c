import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

const FOLDER = new URL('./assets/', import.meta.url);

/** Files of libraries. The package has copies next to its own files. */
const LIBRARY = { 'uplot.css': 'uplot/dist/uPlot.min.css', 'uplot.js': 'uplot/dist/uPlot.iife.min.js' };

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
};

export function assetFiles(): Map<string, string> {
  const own = readdirSync(FOLDER).filter(name => extname(name) in TYPES);
  const { resolve } = createRequire(import.meta.url);
  const missing = Object.entries(LIBRARY).filter(([name]) => !own.includes(name));
  return new Map([
    ...own.sort().map(name => [name, fileURLToPath(new URL(name, FOLDER))] as const),
    ...missing.map(([name, file]) => [name, resolve(file)] as const),
  ]);
}

/** Reads style sheets and scripts. `folder`: their path below the root, which changes with the content of any file. */
export function readAssets() {
  const hash = createHash('sha256');
  const files = new Map<string, { readonly type: string; readonly body: Buffer }>();
  for (const [name, file] of assetFiles()) {
    const body = readFileSync(file);
    hash.update(body);
    files.set(name, { type: TYPES[extname(name)] ?? 'application/octet-stream', body });
  }
  return { folder: `assets/${hash.digest('hex').slice(0, 16)}/`, files };
}
