import axe from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterThisTest } from './client.ts';
import { atThisLoad } from './eventually.ts';
import { requireProgram } from './prometheus.ts';

/** Whether there is a Chromium; see `requireProgram`. */
export const hasChromium = requireProgram('chromium');

const PATIENCE_MS = 60_000;

/** These run in the page, whose types are none of Node's. */
const OVERFLOWING = `(() => {
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  const isWide = each => each.getBoundingClientRect().right > clientWidth + 1;
  return [...document.body.querySelectorAll('*')].filter(isWide).map(each => each.outerHTML.slice(0, 200));
})()`;
const VALUES = `[...document.querySelectorAll('main data, main time')].map(
  each => each.getAttribute('value') ?? each.getAttribute('datetime') ?? '',
)`;

/** A page of a real browser with its errors. */
export interface Visited {
  readonly page: Page;
  /** Errors and warnings of its console, exceptions, and blocked or failed requests, as text. */
  readonly complaints: readonly string[];
  /** Addresses that it asked for outside of its own origin. */
  readonly foreign: readonly string[];
  /** What axe-core calls serious or critical, as text. */
  accessibilityFaults(): Promise<string[]>;
  /** Elements that are wider than the page, as text. */
  overflowing(): Promise<string[]>;
  /** Values for programs of all numbers and times; `''` if unknown. */
  values(): Promise<string[]>;
  /** It goes with the test at the latest; until then it follows each change. */
  close(): Promise<void>;
}

export interface VisitOptions {
  readonly width?: number;
  readonly colorScheme?: 'light' | 'dark';
  readonly javaScriptEnabled?: boolean;
  /** For basic authentication. */
  readonly httpCredentials?: { readonly username: string; readonly password: string };
}

export function launchBrowser(): Promise<Browser> {
  // Debian's. Its sandbox can't be had as root, nor in most containers.
  return chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-sync'],
    timeout: atThisLoad(PATIENCE_MS),
  });
}

/** Opens `url` and waits until it is loaded. */
export async function visit(browser: Browser, url: string, options: VisitOptions = {}): Promise<Visited> {
  const { width = 1280, ...rest } = options;
  const context = await browser.newContext({ viewport: { width, height: 900 }, reducedMotion: 'reduce', ...rest });
  context.setDefaultTimeout(atThisLoad(PATIENCE_MS));
  afterThisTest(() => context.close());
  const page = await context.newPage();
  const complaints: string[] = [];
  const foreign: string[] = [];
  const { origin } = new URL(url);
  page.on('pageerror', error => complaints.push(`exception: ${error.message}`));
  page.on('console', message => {
    if (message.type() === 'error' || message.type() === 'warning')
      complaints.push(`console: ${message.text()} at ${message.location().url}`);
  });
  page.on('request', request => {
    if (new URL(request.url()).origin !== origin) foreign.push(request.url());
  });
  page.on('dialog', dialog => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(url);
  return {
    page,
    complaints,
    foreign,
    async accessibilityFaults() {
      // Not as a script element: the page's policy forbids those of others.
      await page.evaluate(axe.source);
      const { violations } = await page.evaluate<axe.AxeResults>("axe.run({ resultTypes: ['violations'] })");
      return violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html}: ${failureSummary}`));
    },
    overflowing: () => page.evaluate(OVERFLOWING),
    values: () => page.evaluate(VALUES),
    close: () => context.close(),
  };
}
