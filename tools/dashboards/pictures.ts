import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join, normalize } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Browser, chromium, type Page } from 'playwright-core';
import UPNG from 'upng-js';

export interface Picture {
  /** File name without extension. */
  readonly name: string;
  readonly dashboard: string;
  readonly theme: 'light' | 'dark';
  readonly width: number;
  /** Height to which the picture is cropped, from the top (pixels). */
  readonly height?: number;
  /** Whether collapsed rows are drawn expanded. */
  readonly all: boolean;
  /** Selected values of variables, such as `account=orders`. */
  readonly vars?: readonly string[];
}

export interface DrawOptions {
  readonly pictures: readonly Picture[];
  /** Folder of the bundled page. */
  readonly page: string;
  readonly dashboards: string;
  readonly prometheus: string;
  /** End of the time range (ms since the Unix epoch). */
  readonly to: number;
  readonly out: string;
  readonly log: (text: string) => void;
}

const TYPES: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.svg': 'image/svg+xml',
};
const PACKAGES = join(import.meta.dirname, 'node_modules');
/** Paths of Grafana's fonts and the files that replace them, because no Grafana package contains the fonts. */
const FONTS: Record<string, string> = {
  '/public/fonts/inter/Inter-Regular.woff2': '@fontsource/inter/files/inter-latin-400-normal.woff2',
  '/public/fonts/inter/Inter-Medium.woff2': '@fontsource/inter/files/inter-latin-500-normal.woff2',
};

/** Serves the page, the dashboards and Grafana's icons. */
async function serve({ page, dashboards }: DrawOptions) {
  const fileOf = (path: string) => {
    if (path === '/') return join(import.meta.dirname, 'page/index.html');
    if (path.startsWith('/dashboards/')) return join(dashboards, path.slice('/dashboards/'.length));
    const font = FONTS[path];
    if (font !== undefined) return join(PACKAGES, font);
    if (path.startsWith('/public/')) return join(PACKAGES, '@grafana/ui/dist', path.replace('/build/', '/'));
    return join(page, path);
  };
  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url ?? '/', 'http://page').pathname));
    const body = await readFile(fileOf(path)).catch(() => undefined);
    response.writeHead(body ? 200 : 404, {
      'content-type': TYPES[extname(fileOf(path))] ?? 'application/octet-stream',
    });
    response.end(body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, close: () => server.close() };
}

/** Path of Chromium; by default, Debian's. */
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';

async function launch(profile: string): Promise<Browser> {
  if (!existsSync(CHROMIUM)) throw new Error(`there is no ${CHROMIUM}; install chromium, or set CHROMIUM`);
  const flags =
    '--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync --font-render-hinting=none';
  return chromium.launch({ executablePath: CHROMIUM, args: [...flags.split(' '), `--disk-cache-dir=${profile}`] });
}

/** Waits until the page no longer changes and all panels are drawn. Returns the number of panels. */
async function settled(page: Page): Promise<number> {
  const state = () =>
    page.evaluate(
      () => `${document.querySelectorAll('.drawn, .no-data').length} ${document.body.getElementsByTagName('*').length}`,
    );
  for (let [before, since, tries] = ['', 0, 0]; tries < 600; tries += 1) {
    await sleep(250);
    const now = await state();
    since = now === before && !now.startsWith('0 ') ? since + 1 : 0;
    before = now;
    const panels = await page.evaluate(() => document.querySelectorAll('[data-panel]').length);
    if (since >= 4 && Number(now.split(' ')[0]) >= panels) return panels;
  }
  throw new Error(`some panels were not drawn: ${await page.evaluate(() => document.body.innerText.slice(0, 2000))}`);
}

const COLORS = 256;

/** Reduces a picture to 256 colours, which suffice for charts and save two thirds of the bytes. */
function smaller(png: Buffer): Buffer {
  const image = UPNG.decode(new Uint8Array(png).buffer);
  return Buffer.from(UPNG.encode(UPNG.toRGBA8(image), image.width, image.height, COLORS));
}

async function draw(browser: Browser, url: string, picture: Picture, options: DrawOptions): Promise<string[]> {
  const { width, dashboard, theme, all, vars = [] } = picture;
  const { to, prometheus, out, log } = options;
  const page = await browser.newPage({ viewport: { width, height: 1000 }, colorScheme: theme });
  const errors: string[] = [];
  page.on('pageerror', error => errors.push(`${picture.name}: ${error.stack}`));
  page.on('response', answer => {
    if (!answer.ok()) errors.push(`${picture.name}: ${answer.url()}: ${answer.status()}`);
  });
  page.on('console', message => {
    if (message.type() === 'error' || message.type() === 'warning') errors.push(`${picture.name}: ${message.text()}`);
  });
  const query = new URLSearchParams({ dashboard, theme, width: String(width), to: String(to), prometheus });
  if (all) query.set('all', '');
  for (const each of vars) query.append('var', each);
  await page.goto(`${url}?${query}`);
  const panels = await settled(page);
  // Panels outside the viewport are not painted.
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  await page.setViewportSize({ width, height });
  await settled(page);
  const warnings = await page.evaluate(() => (window as unknown as { allWarnings(): string[] }).allWarnings());
  const clip = picture.height === undefined ? {} : { clip: { x: 0, y: 0, width, height: picture.height } };
  const png = await page.screenshot({ animations: 'disabled', fullPage: true, ...clip });
  await page.close();
  const small = smaller(png);
  await writeFile(join(out, `${picture.name}.png`), small);
  log(
    `${picture.name}.png: ${panels} panels, ${Math.round(small.length / 1024)} KB (${Math.round(png.length / 1024)})`,
  );
  return [...warnings.map(text => `${dashboard}: ${text}`), ...errors];
}

/** Draws pictures into `out`. Returns errors, and warnings about ignored options. */
export async function drawPictures(options: DrawOptions): Promise<readonly string[]> {
  const profile = await mkdtemp(join(tmpdir(), 'delivery-watch-chromium-'));
  const server = await serve(options);
  const browser = await launch(profile);
  const found = new Set<string>();
  try {
    for (const picture of options.pictures) {
      for (const warning of await draw(browser, server.url, picture, options)) found.add(warning);
    }
  } finally {
    await browser.close();
    server.close();
    await rm(profile, { recursive: true, force: true });
  }
  return [...found];
}
