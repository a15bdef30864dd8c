import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'rolldown';
import config from '../../rolldown.config.ts';

/** Environment variable with the path of the bundle. */
const NAME = 'DELIVERY_WATCH_BUNDLE';

/**
 * Bundles the command line once for all tests that start it, in the same way as the package. No folder above the bundle
 * contains node_modules. The bundle starts twice as fast as the sources.
 */
export async function setup(): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-bundle-'));
  const main = join(folder, 'dist', 'main.js');
  // The build command would write next to its configuration, but a checkout may be read-only.
  const { output, ...input } = config;
  const { output: files } = await build({
    ...input,
    logLevel: 'silent',
    output: { ...output, dir: join(folder, 'dist') },
  });
  const modules = files.flatMap(each => (each.type === 'chunk' ? each.moduleIds : []));
  writeFileSync(join(folder, 'modules.json'), JSON.stringify(modules));
  process.env[NAME] = main;
  return () => rmSync(folder, { recursive: true, force: true });
}

/** Returns the file to start: the bundle, or the sources outside of tests and after `startSources`. */
export const mainFile = (): string => process.env[NAME] ?? 'src/main.ts';

/**
 * Makes tests start the sources, as `npm start` does. Returns a function to undo this for later tests in this process.
 */
export function startSources(): () => void {
  const { [NAME]: bundle } = process.env;
  delete process.env[NAME];
  return () => {
    if (bundle) process.env[NAME] = bundle;
  };
}
