/** Takes screenshots of the agent's pages for docs/images: `npm run pages:draw`. Takes about three minutes and needs Chromium. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { startAgent } from '../src/agent/agent.ts';
import { DEMO_EVENTS, DEMO_SEED, demoAccount, demoSettings } from '../src/cli/demo-settings.ts';
import { Config } from '../src/config/schema.ts';
import { startEmulator } from '../src/emulator/server.ts';
import { acceleratedClock, systemClock } from '../src/kit/clock.ts';
import { withClosing } from '../src/kit/closing.ts';

/** An agent whose accounts run scenarios of the emulator at `speed`, and the pictures of its pages. */
interface World {
  readonly speed: number;
  readonly accounts: Readonly<Record<string, string>>;
  /** Real time from the agent's start until the pictures are taken (ms). */
  readonly after: number;
  readonly pictures: readonly Picture[];
}

interface Picture {
  readonly path: string;
  /** File name without extension. */
  readonly name: string;
  readonly width: number;
  /** Maximum height in pixels, from the top or from the element that `from` selects. */
  readonly height: number;
  readonly from?: string;
  readonly colorScheme?: 'light' | 'dark';
}

const FLEET: World = {
  speed: 60,
  accounts: {
    billing: 'steady',
    media: 'rate-limited',
    orders: 'dlq-growth',
    signup: 'steady',
  },
  after: 24_000,
  pictures: [
    { path: '', name: 'page-overview', width: 1280, height: 1000 },
    { path: '', name: 'page-overview-dark', width: 1280, height: 1000, colorScheme: 'dark' },
    { path: 'accounts/orders', name: 'page-account', width: 1280, height: 1100, from: '.places' },
    {
      path: 'accounts/orders',
      name: 'page-account-dark',
      width: 1280,
      height: 1100,
      from: '.places',
      colorScheme: 'dark',
    },
  ],
};
const STUCK: World = {
  speed: 900,
  accounts: { workflows: 'stuck-callback' },
  after: 90_000,
  pictures: [{ path: 'auto-cancel', name: 'page-auto-cancel', width: 1280, height: 900 }],
};

const OUT = join(import.meta.dirname, '../docs/images');

async function draw(url: string, pictures: World['pictures']): Promise<void> {
  const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  });
  for (const { path, name, width, height, colorScheme = 'light', from = 'body' } of pictures) {
    const page = await browser.newPage({ viewport: { width, height }, colorScheme, reducedMotion: 'reduce' });
    await page.goto(`${url}/${path}`);
    for (const chart of await page.locator('figure[data-chart]').all()) await chart.locator('canvas').waitFor();
    const file = join(OUT, `${name}.png`);
    const used = await page.locator('body').evaluate(body => Math.ceil(body.getBoundingClientRect().bottom));
    const top = await page.locator(from).evaluate(element => Math.floor(element.getBoundingClientRect().top));
    const clip = { x: 0, y: top, width, height: Math.min(height, used - top) };
    await page.screenshot({ path: file, fullPage: true, clip });
    process.stdout.write(`${file}\n`);
    await page.close();
  }
  await browser.close();
}

async function show({ speed, accounts, after, pictures }: World): Promise<void> {
  const clock = acceleratedClock(systemClock, speed);
  await withClosing(async closing => {
    const folder = await mkdtemp(join(tmpdir(), 'delivery-watch-pages-'));
    closing.add('folder', () => rm(folder, { recursive: true, force: true }));
    const [first = ''] = Object.values(accounts);
    const config = demoSettings(first, speed);
    const own: object[] = [];
    for (const [name, scenario] of Object.entries(accounts)) {
      const emulator = await startEmulator({ scenario, seed: DEMO_SEED + own.length, clock, maxEvents: DEMO_EVENTS });
      closing.add(name, () => emulator.close());
      own.push(demoAccount(name, scenario, emulator));
    }
    const store = { path: join(folder, 'db') };
    const parsed = Config.parse({
      server: { listen: '127.0.0.1:0' },
      log: { level: 'warn' },
      store,
      accounts: own,
      ...config,
    });
    const loaded = { file: 'config.yaml', config: parsed, hash: 'c0ffee', warnings: [] };
    const agent = await startAgent(loaded, { env: {}, clock, random: Math.random });
    closing.add('agent', () => agent.close());
    await systemClock.sleep(after);
    await draw(agent.url, pictures);
  });
}

for (const world of [FLEET, STUCK]) await show(world);
