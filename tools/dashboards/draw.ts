import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Picture } from './pictures.ts';
import { importFiles, startPrometheus } from './prometheus.ts';
import { recordWorld } from './world/record.ts';

const USAGE = `npm run dashboards:draw -- [options]
  --out DIR         folder of the pictures (docs/images)
  --dashboards DIR  folder of the dashboards (dashboards)
  --only NAME       draws only this dashboard, such as overview
  --keep DIR        keeps the recorded data there; later runs reuse it instead of recording
  --hours N         length of the simulated past (25: the longest window of a panel plus one)
`;

const root = resolve(import.meta.dirname, '../..');
const log = (text: string) => void process.stdout.write(`${text}\n`);
const { values } = parseArgs({
  options: {
    out: { type: 'string', default: join(root, 'docs/images') },
    dashboards: { type: 'string', default: join(root, 'dashboards') },
    only: { type: 'string' },
    keep: { type: 'string' },
    hours: { type: 'string', default: '25' },
    help: { type: 'boolean', short: 'h' },
  },
});

/** Height of the first screen (pixels). */
const FIRST_SCREEN = 800;

/**
 * Returns all pictures: each dashboard in both themes. The overview is also drawn 1920 pixels wide and cropped to the first
 * screen; dashboards with collapsed rows are also drawn with all rows open.
 */
async function picturesOf(folder: string): Promise<Picture[]> {
  const names = (await readdir(folder)).filter(name => name.endsWith('.json')).map(name => name.slice(0, -5));
  const pictures: Picture[] = [];
  for (const dashboard of names.filter(name => values.only === undefined || name === values.only)) {
    const { panels } = JSON.parse(await readFile(join(folder, `${dashboard}.json`), 'utf8'));
    const collapses = panels.some(({ collapsed }: { collapsed?: boolean }) => collapsed);
    for (const theme of ['light', 'dark'] as const) {
      const base = { dashboard, theme, width: 1280, all: false };
      pictures.push({ ...base, name: `${dashboard}-${theme}` });
      if (dashboard === 'overview') {
        pictures.push({ ...base, width: 1920, name: `${dashboard}-${theme}-1920` });
        pictures.push({ ...base, height: FIRST_SCREEN, name: `${dashboard}-${theme}-first-screen` });
      }
      if (collapses && theme === 'light') pictures.push({ ...base, all: true, name: `${dashboard}-${theme}-all` });
    }
  }
  return pictures;
}

/** Records the simulated past in `data`. Returns its end (ms since the Unix epoch). */
async function record(folder: string, data: string): Promise<number> {
  const { files, until } = await recordWorld(Number(values.hours) * 3_600_000, folder, log);
  await importFiles(files, data);
  return until;
}

/** Returns a message for each requirement that is not installed. */
function missing(): string[] {
  const { CHROMIUM = '/usr/bin/chromium' } = process.env;
  const programs = ['prometheus', 'promtool', CHROMIUM].filter(name => spawnSync(name, ['--version']).error);
  return [
    ...programs.map(name => `${name} is missing: apt-get install prometheus chromium`),
    ...(existsSync(join(import.meta.dirname, 'node_modules')) ? [] : ['run `npm ci --prefix tools/dashboards` first']),
  ];
}

async function main(): Promise<void> {
  if (values.help) return log(USAGE);
  const needed = missing();
  if (needed.length > 0) {
    process.stderr.write(`${needed.join('\n')}\n`);
    process.exit(1);
  }
  const [{ bundlePage }, { drawPictures }] = await Promise.all([import('./bundle.ts'), import('./pictures.ts')]);
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-dashboards-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
  const data = join(values.keep ? resolve(values.keep) : folder, 'data');
  await mkdir(data, { recursive: true });
  const end = join(data, '..', 'to');
  let to = Number(await readFile(end, 'utf8').catch(() => ''));
  if (!to) {
    to = await record(folder, data);
    await writeFile(end, String(to));
  }
  const page = join(folder, 'page');
  await bundlePage(page);
  await mkdir(values.out, { recursive: true });
  const prometheus = await startPrometheus(data);
  const warnings = await drawPictures({
    pictures: await picturesOf(values.dashboards),
    page,
    dashboards: values.dashboards,
    prometheus: prometheus.url,
    to,
    out: values.out,
    log,
  }).finally(prometheus.stop);
  for (const warning of warnings) log(`warning: ${warning}`);
}

await main();
process.exit();
