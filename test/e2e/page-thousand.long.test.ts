import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startAgent } from '../../src/agent/agent.ts';
import { Overview } from '../../src/status/api/overview.ts';
import { hasChromium, launchBrowser, visit } from '../support/browser.ts';
import { afterThisTest } from '../support/client.ts';
import { collectOnly } from '../support/collect.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { loadedFrom } from '../support/view-scene.ts';

const ACCOUNTS = 1000;
const REFUSED = 20;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

const nameOf = (index: number) => `tenant-${String(index).padStart(3, '0')}`;
/** Returns an account's number of dead letters, which differs from its neighbours' and follows no particular order. */
const lettersOf = (index: number) => (index * 7) % 13;

/**
 * Starts an agent on a manual clock. Returns once it has read the dead letters of a thousand accounts, some of which have
 * rejected tokens.
 */
async function setScene() {
  const clock = createManualClock(Date.UTC(2026, 0, 1, 12));
  const emulator = await emulateEmpty({ clock, accounts: ACCOUNTS });
  const { accounts } = emulator;
  for (const [index, { state, faults }] of accounts.entries()) {
    for (let letter = 0; letter < lettersOf(index); letter += 1) {
      state.addDlqEntry({ enteredAt: clock.now() - HOUR - index * 1000 });
    }
    if (index < REFUSED) faults.add({ kind: 'status', status: 401 });
  }
  const budget = { requestsPerSecond: 1000, burst: 1000 };
  const loaded = loadedFrom({
    server: { listen: '127.0.0.1:0' },
    accounts: accounts.map(({ token }, index) => ({ name: nameOf(index), baseUrl: emulator.url, token, budget })),
    collect: {
      ...collectOnly('dlq'),
      dlq: { every: '5m', rescanEvery: '5m' },
    },
  });
  const agent = await startAgent(loaded, { env: {}, clock, random: () => 0 });
  afterThisTest(() => agent.close());
  await eventually(async () => {
    await clock.advance(1000);
    const { accounts } = Overview.parse(await (await fetch(`${agent.url}/api/v1/overview?per=1`)).json());
    expect(accounts).toMatchObject({ up: ACCOUNTS - REFUSED, byState: { critical: REFUSED } });
  });
  return { clock, accounts, url: agent.url };
}

/**
 * Returns a function that reports how long the page's main thread was busy and how long its longest task took. The test does
 * not assert these times, because machines differ.
 */
async function watchEffort(page: Page) {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  await page.context().addInitScript(`longTasks = [0];
    new PerformanceObserver(list => longTasks.push(...list.getEntries().map(({ duration }) => duration)))
      .observe({ type: 'longtask', buffered: true })`);
  return async (what: string): Promise<string> => {
    const { metrics } = await session.send('Performance.getMetrics');
    const busy = metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN;
    const longest = await page.evaluate<number>('Math.max(...longTasks)');
    return `${what}: ${Math.round(busy * 1000)} ms busy so far, longest turn ${Math.round(longest)} ms\n`;
  };
}

const names = (page: Page) =>
  page.locator('tbody tr').evaluateAll(rows => rows.map(row => row.getAttribute('data-key') ?? ''));
const DEAD_LETTERS = 'td[data-label="Dead letters"] > data';
const rowsAre = (page: Page, first: string, count: number) =>
  eventually(async () => {
    const found = await names(page);
    expect([found[0], found.length]).toEqual([first, count]);
  });

describe.skipIf(!hasChromium)('many accounts in a browser', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(() => browser.close());

  it('a thousand accounts are listed, searched and filtered, and keep their position while numbers change', async () => {
    const { clock, accounts, url } = await setScene();
    const { page, complaints } = await visit(browser, `${url}/`);
    const effort = await watchEffort(page);
    const report = async (what: string) => process.stdout.write(await effort(what));
    await page.reload();
    await page.getByText('1 to 100 of 1,000 accounts').waitFor();
    await report('open');

    // The worst accounts come first.
    expect((await names(page)).slice(0, REFUSED)).toEqual(Array.from({ length: REFUSED }, (_, index) => nameOf(index)));
    const listed = await names(page);
    for (let number = 2; number <= 10; number += 1) {
      const { page: next } = await visit(browser, `${url}/?page=${number}`);
      listed.push(...(await names(next)));
      await next.context().close();
    }
    expect(listed.toSorted()).toEqual(Array.from({ length: ACCOUNTS }, (_, index) => nameOf(index)));

    // The search runs while the user types.
    await page.locator('#live[data-live-state="live"]').waitFor();
    await page.getByRole('searchbox').pressSequentially('nant-07');
    await rowsAre(page, nameOf(70), 10);
    expect(await names(page)).toEqual(Array.from({ length: 10 }, (_, index) => nameOf(70 + index)));
    await report('search');
    await page.getByRole('searchbox').fill('');
    await rowsAre(page, nameOf(0), 100);
    await page.locator('select[name=state]').selectOption('critical');
    await rowsAre(page, nameOf(0), REFUSED);
    await report('filter');
    expect(complaints).toEqual([]);

    // A row far down on a later page keeps its position.
    const { page: fifth, complaints: others } = await visit(browser, `${url}/?page=5`);
    await fifth.locator('#live[data-live-state="live"]').waitFor();
    const row = fifth.locator(`tr[data-key="${nameOf(450)}"]`);
    await row.scrollIntoViewIfNeeded();
    const place = `(row => [row.isTheSame, Math.round(row.getBoundingClientRect().top)])(document.querySelector('tr[data-key="${nameOf(450)}"]'))`;
    await row.evaluate(each => Object.assign(each, { isTheSame: true }));
    const before = await fifth.evaluate(place);
    accounts[450]?.state.addDlqEntry({ enteredAt: clock.now() });
    await eventually(async () => {
      await clock.advance(MINUTE);
      expect(await row.locator(DEAD_LETTERS).getAttribute('value')).toBe(String(lettersOf(450) + 1));
    });
    expect(await fifth.evaluate(place)).toEqual(before);
    expect(await fifth.getByText('401 to 500 of 1,000 accounts').count()).toBe(1);
    expect(others).toEqual([]);
  });
});
