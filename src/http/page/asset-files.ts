import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface Asset {
  readonly type: string;
  readonly body: Buffer;
}

/** Style sheet and scripts of the pages, read when they are first wanted. */
export interface Assets {
  /** From the root of the port to them: `assets/HASH/`. Where one of them is another, so is the hash. */
  folder(): string;
  /** Undefined where there is none of that name. */
  find(name: string): Asset | undefined;
}

/** In the package all stand beside this file; in the sources those of a library are the library's: where, by name. */
const FILES: Readonly<Record<string, string | null>> = {
  'style.css': null,
  'client.js': null,
  'age.js': null,
  'pages.css': null,
  'charts.js': null,
  'chart-data.js': null,
  'chart-options.js': null,
  'commands.js': null,
  'uplot.css': 'uplot/dist/uPlot.min.css',
  'uplot.js': 'uplot/dist/uPlot.iife.min.js',
};

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
};

function placeOf(name: string, library: string | null): string {
  const beside = fileURLToPath(new URL(`./assets/${name}`, import.meta.url));
  return library === null || existsSync(beside) ? beside : createRequire(import.meta.url).resolve(library);
}

/** Where each file is, by name. */
export const assetFiles = (): Map<string, string> =>
  new Map(Object.entries(FILES).map(([name, library]) => [name, placeOf(name, library)]));

export function createAssets(): Assets {
  let loaded: { readonly folder: string; readonly files: ReadonlyMap<string, Asset> } | undefined;

  function load() {
    const hash = createHash('sha256');
    const files = new Map<string, Asset>();
    for (const [name, file] of assetFiles()) {
      const body = readFileSync(file);
      hash.update(body);
      files.set(name, { type: TYPES[extname(name)] ?? 'application/octet-stream', body });
    }
    return { folder: `assets/${hash.digest('hex').slice(0, 16)}/`, files };
  }

  function all() {
    loaded ??= load();
    return loaded;
  }

  return { folder: () => all().folder, find: name => all().files.get(name) };
}
