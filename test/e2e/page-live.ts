import type { Browser, Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { systemClock } from '../../src/kit/clock.ts';
import type { Overview, OverviewQuery } from '../../src/status/api/overview.ts';
import { startHttpServer } from '../../src/status/server.ts';
import { servedWith } from '../status/empty-served.ts';
import { NOW, overview, row, TROUBLED } from '../status/page/fixtures/overview.ts';
import { visit } from '../support/browser.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { createTestLog } from '../support/silent.ts';

/** Returns an overview of three accounts, filtered by `q`. The last account has a problem if `hasProblem` is set. */
function scene(hasProblem: boolean, q: string): Overview {
  const [worst = null] = TROUBLED.problems;
  const last = hasProblem ? row('c', { state: 'critical', worst, deadLetters: 77 }) : row('c');
  const rows = hasProblem ? [last, row('a'), row('b')] : [row('a'), row('b'), last];
  const matching = rows.filter(({ account }) => account.includes(q));
  return { ...overview(rows), rows: matching, matching: matching.length };
}

/** Starts a server with changeable numbers. */
async function serve() {
  const state = { hasProblem: false, queries: [] as OverviewQuery[] };
  const server = await startHttpServer(
    { host: '127.0.0.1', port: 0 },
    servedWith({
      overview: async query => {
        state.queries.push(query);
        return scene(state.hasProblem, query.q);
      },
    }),
    createTestLog(),
  );
  afterThisTest(() => server.close());
  return { server, state };
}

/** Shows or hides a page, as its tab does. From the first call on, `page.clock` controls when it updates. */
async function show(page: Page, isShown: boolean): Promise<void> {
  await page.clock.install();
  await page.evaluate(`Object.defineProperty(document, 'hidden', { configurable: true, value: ${!isShown} });
    document.dispatchEvent(new Event('visibilitychange'));`);
}

/** Advances the page's clock until the page shows a text: a request in flight delays the next one. */
const showsAfter = (page: Page, text: string | RegExp) =>
  eventually(async () => {
    await page.clock.runFor(15_000);
    expect(await page.getByText(text).count()).toBe(1);
  });

/** Defines live-update tests against a server with data that the test controls. */
export function livePages(browser: () => Browser): void {
  it('pages update live and keep focus, elements and input', async () => {
    const { server, state } = await serve();
    const { page, complaints } = await visit(browser(), server.url);
    await show(page, true);
    expect(await page.locator('h1').textContent()).toBe('All right');
    const search = page.getByRole('searchbox');
    await page.getByRole('link', { name: 'b', exact: true }).focus();
    await page.evaluate("document.querySelector('tr[data-key=a]').isTheSame = true");
    state.hasProblem = true;
    await showsAfter(page, '1 problem, 1 critical');
    expect(await page.title()).toBe('1 problem, 1 critical · delivery-watch');
    expect(await page.locator('tbody tr').evaluateAll(rows => rows.map(each => each.getAttribute('data-key')))).toEqual(
      ['c', 'a', 'b'],
    );
    expect(await page.evaluate("document.querySelector('tr[data-key=a]').isTheSame")).toBe(true);
    expect(await page.evaluate('document.activeElement.textContent')).toBe('b');

    // The search runs while the user types, and the text is kept when numbers change.
    await search.pressSequentially('c');
    await page.clock.runFor(200);
    await page.locator('tr[data-key=a]').waitFor({ state: 'detached' });
    expect(new URL(page.url()).search).toBe('?q=c&state=any');
    state.hasProblem = false;
    await showsAfter(page, 'All right');
    expect([await search.inputValue(), await page.locator('tbody tr').count()]).toEqual(['c', 1]);
    expect(await page.evaluate('document.activeElement.name')).toBe('q');
    expect(complaints).toEqual([]);
  });

  it('pages send no request while hidden, and report a lost connection', async () => {
    const { server, state } = await serve();
    const { page } = await visit(browser(), server.url);
    await page.locator('#live[data-live-state="live"]').waitFor();
    await show(page, false);
    const { length } = state.queries;
    await page.clock.runFor(60_000);
    state.hasProblem = true;
    await show(page, true);
    await page.getByText('1 problem, 1 critical').waitFor();
    expect(state.queries).toHaveLength(length + 1);
    await server.close();
    await showsAfter(page, /connection lost, data as of \d\d:\d\d:\d\d UTC/);
  });

  it('pages keep their layout with hostile account names', async () => {
    const server = await startHttpServer(
      { host: '127.0.0.1', port: 0 },
      // Two days later, so that displayed times include a date.
      servedWith({ clock: { ...systemClock, now: () => NOW + 172_800_000 }, overview: async () => TROUBLED }),
      createTestLog(),
    );
    afterThisTest(() => server.close());
    for (const [width, colorScheme] of [
      [1280, 'light'],
      [360, 'dark'],
    ] as const) {
      const visited = await visit(browser(), server.url, { width, colorScheme });
      expect(await visited.accessibilityFaults()).toEqual([]);
      expect(await visited.overflowing()).toEqual([]);
      expect(visited.complaints).toEqual([]);
      expect(visited.foreign).toEqual([]);
      await visited.page.keyboard.press('Tab');
      expect(await visited.page.evaluate('document.activeElement.textContent')).toBe('Skip to content');
    }
  });
}
