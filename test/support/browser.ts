import axe from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterThisTest } from './client.ts';
import { atThisLoad } from './eventually.ts';
import { requireProgram } from './prometheus.ts';

/** Whether Chromium is installed; see `requireProgram`. */
export const hasChromium = requireProgram('chromium');

const TIMEOUT_MS = 60_000;

/** Source code that the page evaluates. It is a string, so that TypeScript needs no DOM types. */
const OVERFLOWING = `(() => {
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth <= clientWidth) return [];
  const isWide = each => each.getBoundingClientRect().right > clientWidth + 1;
  return [...document.body.querySelectorAll('*')].filter(isWide).map(each => each.outerHTML.slice(0, 200));
})()`;
/** Finds words of the page that break within a line. Spaces and punctuation may end a line, as in hosts and paths. */
const BROKEN_WORDS = `(() => {
  for (const each of document.querySelectorAll('details')) each.open = true;
  const texts = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  const broken = [];
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    for (const { 0: word, index } of text.data.matchAll(/[^\\s./:?&_…·-]+/g)) {
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
      if (lines.size > 1) broken.push(word);
    }
  }
  return broken;
})()`;
const VALUES = `[...document.querySelectorAll('main data, main time')].map(
  each => each.getAttribute('value') ?? each.getAttribute('datetime') ?? '',
)`;

/** A page in a real browser and its errors. */
export interface Visited {
  readonly page: Page;
  /** Console errors and warnings, exceptions, and blocked or failed requests. */
  readonly complaints: readonly string[];
  /** Requested URLs outside the page's origin. */
  readonly foreign: readonly string[];
  /** Returns serious and critical findings of axe-core. */
  accessibilityFaults(): Promise<string[]>;
  /** Returns elements that are wider than the page. */
  overflowing(): Promise<string[]>;
  /** Returns words that break within a line. */
  brokenWords(): Promise<string[]>;
  /** Returns the machine-readable values of all numbers and times; `''` if unknown. */
  values(): Promise<string[]>;
  /** Closes the page, which otherwise keeps updating until the test ends. */
  close(): Promise<void>;
}

export interface VisitOptions {
  readonly width?: number;
  readonly colorScheme?: 'light' | 'dark';
  readonly javaScriptEnabled?: boolean;
  /** Credentials for basic authentication. */
  readonly httpCredentials?: { readonly username: string; readonly password: string };
}

export function launchBrowser(): Promise<Browser> {
  // Start Debian's Chromium without a sandbox, which is unavailable to root and in most containers.
  return chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking', '--disable-sync'],
    timeout: atThisLoad(TIMEOUT_MS),
  });
}

/** Opens `url` and waits until it is loaded. */
export async function visit(browser: Browser, url: string, options: VisitOptions = {}): Promise<Visited> {
  const { width = 1280, ...rest } = options;
  const context = await browser.newContext({ viewport: { width, height: 900 }, reducedMotion: 'reduce', ...rest });
  context.setDefaultTimeout(atThisLoad(TIMEOUT_MS));
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
      // Evaluate the source instead of adding a script element, because the page's content security policy blocks it.
      await page.evaluate(axe.source);
      const { violations } = await page.evaluate<axe.AxeResults>("axe.run({ resultTypes: ['violations'] })");
      return violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html}: ${failureSummary}`));
    },
    overflowing: () => page.evaluate(OVERFLOWING),
    brokenWords: () => page.evaluate(BROKEN_WORDS),
    values: () => page.evaluate(VALUES),
    close: () => context.close(),
  };
}
