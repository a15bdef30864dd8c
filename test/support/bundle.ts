import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'rolldown';
import config from '../../rolldown.config.ts';

/** Where processes of this run find it. */
const NAME = 'DELIVERY_WATCH_BUNDLE';

/**
 * Builds the command line once for all tests of a run that start it, as for the package, in a folder with no node_modules in it
 * or above it: a start takes half of what it takes from the sources.
 */
export async function setup(): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-bundle-'));
  const main = join(folder, 'dist', 'main.js');
  // Not by its command, which writes beside the configuration: a checkout may be read-only.
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

/** What is started: the bundle; in a program that is no test, or from now on where a test wants that, the sources. */
export const mainFile = (): string => process.env[NAME] ?? 'src/main.ts';

/** From now on the sources are started, as `npm start` does. Gives how to undo that: other tests follow in this process. */
export function startSources(): () => void {
  const { [NAME]: bundle } = process.env;
  delete process.env[NAME];
  return () => {
    if (bundle) process.env[NAME] = bundle;
  };
}
