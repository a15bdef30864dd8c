/**
 * `node bench/run.ts [NAME…]`: runs the named benchmarks, by default all, prints their results and writes them to RESULTS.md.
 * Requires `npm run build`.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { machine } from './measure.ts';

const BENCHES: Readonly<Record<string, () => Promise<{ run(): Promise<string> }>>> = {
  scrape: () => import('./scrape.ts'),
  render: () => import('./render.ts'),
  ingest: () => import('./ingest.ts'),
  walk: () => import('./walk.ts'),
  footprint: () => import('./footprint.ts'),
  accounts: () => import('./accounts.ts'),
  replicas: () => import('./replicas.ts'),
  size: () => import('./size.ts'),
  loop: () => import('./loop.ts'),
  tracing: () => import('./tracing.ts'),
  watch: () => import('./watch.ts'),
  page: () => import('./page.ts'),
  emulator: () => import('./emulator.ts'),
};

const RESULTS = new URL('./RESULTS.md', import.meta.url);
const INTRODUCTION =
  '# Measured\n\nWritten by `npm run bench`, or `npm run bench -- NAME` for one section. The targets are ratios within one run.\n';

/** Replaces the section under `heading` with `section`, or appends `section` if there is none. */
function replaceSection(text: string, heading: string, section: string): string {
  const parts = text.split(/^(?=## )/m);
  const at = parts.findIndex(part => part.startsWith(`${heading}\n`));
  if (at === -1) return [...parts, section].map(part => `${part.trimEnd()}\n`).join('\n');
  return parts
    .with(at, section)
    .map(part => `${part.trimEnd()}\n`)
    .join('\n');
}

if (!existsSync(new URL('../dist', import.meta.url))) throw new Error('no dist/: run npm run build first');
const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(BENCHES);
for (const name of names) {
  const load = BENCHES[name];
  if (load === undefined) throw new Error(`no bench ${name}; there are ${Object.keys(BENCHES).join(', ')}`);
  const { run } = await load();
  const section = `## ${name}\n\nOn ${machine()}.\n\n${await run()}\n`;
  process.stdout.write(`${section}\n`);
  const before = existsSync(RESULTS) ? readFileSync(RESULTS, 'utf8') : INTRODUCTION;
  writeFileSync(RESULTS, replaceSection(before, `## ${name}`, section));
}
