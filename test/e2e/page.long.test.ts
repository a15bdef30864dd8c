import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { hasChromium, launchBrowser, type Visited, type VisitOptions, visit } from '../support/browser.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { factsOf } from '../support/page-values.ts';
import { parseExposition } from '../support/parse-exposition.ts';
import { exposedValue, shownNumbers } from '../support/view-families.ts';
import { livePages } from './page-live.ts';
import { getJson, HOSTILE, MINUTE, RICH, setScene, TOKEN, untilRead } from './page-scene.ts';

/** Selector of the queue's size on an account's page. */
const DEAD_LETTERS = '#dead-letters .tile:first-child .big data';

const PAGES = {
  '/': '/api/v1/overview',
  '/accounts/acme': '/api/v1/accounts/acme',
  '/auto-cancel': '/api/v1/auto-cancel',
};

/** Checks that a page has no errors, requests to other hosts, overflow, accessibility problems or secrets. */
async function expectSound(visited: Visited): Promise<void> {
  expect(visited.complaints).toEqual([]);
  expect(visited.foreign).toEqual([]);
  expect(await visited.overflowing()).toEqual([]);
  expect(await visited.accessibilityFaults()).toEqual([]);
  expect(await visited.page.content()).not.toContain(TOKEN);
  expect(await visited.page.title()).not.toBe('pwned');
}

describe.skipIf(!hasChromium)('pages in a browser', { timeout: 20 * MINUTE }, () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(() => browser.close());
  const open = (url: string, options?: VisitOptions) => visit(browser, url, options);

  it('pages show the same values as the API and the exposition, and pass accessibility, layout and injection checks', async () => {
    const scene = await setScene(RICH.account, RICH.config);
    scene.fill();
    const { url } = await scene.start();
    await untilRead(scene, url);
    for (const [path, route] of Object.entries(PAGES)) {
      const wide = await open(url + path);
      const answer = await getJson(url + route);
      const shown = await wide.values();
      expect(shown.length, path).toBeGreaterThan(3);
      const known = new Set(['', ...factsOf(answer).values()]);
      expect(
        shown.filter(value => !known.has(value)),
        path,
      ).toEqual([]);
      await expectSound(wide);
      await wide.close();
      const narrow = await open(url + path, { width: 360, colorScheme: 'dark' });
      await expectSound(narrow);
      await narrow.close();
    }
    const view = (await getJson(`${url}/api/v1/accounts/acme`)) as object;
    const families = parseExposition(await (await fetch(`${url}/metrics`)).text(), 'text');
    const numbers = shownNumbers(view);
    expect(numbers.map(({ path, value }) => [path, value])).toEqual(
      numbers.map(number => [number.path, exposedValue(families, 'acme', number)]),
    );
  });

  livePages(() => browser);

  it('words do not break on a phone, and firing alerts are listed', async () => {
    const rules = [{ name: 'Any', when: { above: { metric: 'delivery_dlq_messages', value: 0 } } }];
    const scene = await setScene({}, { alerts: { enabled: true, rules } });
    for (const host of ['api.notifications.partner.example.com', 'h.example.com'])
      scene.emulator.state.addDlqEntry({ enteredAt: scene.clock.now() - MINUTE, url: `https://${host}/orders` });
    const { url } = await scene.start();
    await untilRead(scene, url);
    const visited = await open(`${url}/accounts/acme`, { width: 400 });
    await visited.page.locator('th').getByText('api.notifications.partner.example.com').first().waitFor();
    expect(await visited.brokenWords()).toEqual([]);
    await expectSound(visited);
    await visited.close();
    await eventually(async () => {
      await scene.clock.advance(15_000);
      expect(await getJson(`${url}/api/v1/overview`)).toMatchObject({ alertsFiring: 1 });
    });
    const { page } = await open(url);
    await page.getByText('delivery_dlq_messages of acme is 2, above 0.').waitFor();
  });

  it('pages work without JavaScript', async () => {
    const scene = await setScene({}, {}, ['acme', 'other']);
    scene.fill();
    const { url } = await scene.start();
    await untilRead(scene, url);
    const { page } = await open(`${url}/`, { javaScriptEnabled: false });
    expect(await page.locator('#live').textContent()).toMatch(/^data as of \d\d:\d\d:\d\d UTC$/);
    await page.getByRole('searchbox').fill('oth');
    await page.getByRole('button', { name: 'Show' }).click();
    await page.waitForURL('**/?q=oth&state=any');
    expect(await page.locator('tbody th a').allTextContents()).toEqual(['other']);
    await page.getByRole('searchbox').fill('acm');
    await page.getByRole('searchbox').press('Enter');
    await page.waitForURL(/q=acm/);
    expect(await page.getByRole('link', { name: 'other' }).count()).toBe(0);
    await page.getByRole('link', { name: 'acme' }).last().click();
    await page.waitForURL(/accounts\/acme/);
    expect(await page.locator(DEAD_LETTERS).first().getAttribute('value')).toBe('5');
  });

  it.each([1280, 400])(
    'pages lead from a kind of dead letters to its entries, to a message and back at a width of %i px',
    async width => {
      const scene = await setScene();
      scene.fill();
      const { state } = scene.emulator;
      const messageId = `msg_${'x'.repeat(190)}`;
      const times = [-90_000, -80_000, -70_000, -70_000].map(offset => scene.clock.now() + offset);
      state.addDlqEntry({
        messageId,
        enteredAt: times[3] ?? 0,
        responseStatus: 429,
        url: 'https://kind.example.com/x',
        queueName: HOSTILE,
      });
      state.addEvents(
        (['created', 'active', 'error', 'failed'] as const).map((each, index) => ({
          messageId,
          state: each,
          time: times[index] ?? 0,
        })),
      );
      const { url } = await scene.start();
      await untilRead(scene, url);
      const visited = await open(`${url}/accounts/acme`, { width, colorScheme: width === 400 ? 'dark' : 'light' });
      const { page } = visited;
      const heading = page.getByRole('heading', { level: 1 });
      const rows = page.locator('tbody tr');

      await rows
        .filter({ hasText: 'kind.example.com' })
        .getByRole('link', { name: /^kind / })
        .click();
      await heading.filter({ hasText: /^Dead letters of kind [0-9a-f]+$/ }).waitFor();
      expect(await rows.count()).toBe(1);
      expect(await page.locator('main').innerText()).toContain('status 429');
      await expectSound(visited);
      const entries = page.url();

      // The link is reachable with the keyboard, in reading order.
      const link = page.getByRole('link', { name: messageId });
      for (const name of ['Skip to content', 'delivery-watch', 'Accounts', 'Auto-cancel', 'acme', messageId]) {
        await page.keyboard.press('Tab');
        expect(await page.evaluate('document.activeElement.textContent')).toBe(name);
      }
      expect(await link.evaluate(each => each.matches(':focus-visible'))).toBe(true);
      await page.keyboard.press('Enter');
      await heading.filter({ hasText: `Message ${messageId}` }).waitFor();
      const text = await page.locator('main').innerText();
      for (const words of [
        'Result: failed after 20 s and 1 attempt.',
        'attempt 1, took 10 s',
        'In the dead-letter queue',
      ])
        expect(text).toContain(words);
      await expectSound(visited);

      await page.getByRole('link', { name: 'Dead letters of the same kind' }).click();
      await page.waitForURL(entries);
      await page.goBack();
      await heading.filter({ hasText: 'Message' }).waitFor();
      await page.getByRole('link', { name: 'acme' }).click();
      await page.waitForURL('**/accounts/acme');
      await page.getByRole('link', { name: 'Newest events' }).click();
      await rows.getByRole('link', { name: messageId }).first().waitFor();
      await expectSound(visited);
      await page.getByRole('link', { name: messageId }).first().click();
      await heading.filter({ hasText: 'Message' }).waitFor();

      // The service rejects the token: the pages show the reason.
      scene.emulator.faults.add({ kind: 'status', status: 401 });
      await scene.clock.advance(10_001);
      const failed = await open(entries, { width });
      expect(await failed.page.locator('main').innerText()).toMatch(
        /failed with status 503: the service rejects the token/,
      );
      expect(failed.complaints.filter(each => !each.includes('503'))).toEqual([]);
      expect(await failed.overflowing()).toEqual([]);
      expect(await failed.accessibilityFaults()).toEqual([]);
    },
  );

  it('look-up pages work without JavaScript', async () => {
    const scene = await setScene();
    scene.fill();
    const { url } = await scene.start();
    await untilRead(scene, url);
    const { page, overflowing } = await open(`${url}/accounts/acme`, { width: 400, javaScriptEnabled: false });
    await page.getByRole('link', { name: 'More new entries' }).click();
    await page.waitForURL('**/accounts/acme/dlq');
    expect(await page.locator('tbody tr').count()).toBe(5);
    await page.locator('tbody').getByRole('link').first().click();
    await page.waitForURL('**/messages/*');
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toMatch(/^Message /);
    expect(await overflowing()).toEqual([]);
  });

  it('pages show missing data, an unavailable service, withdrawn data and a rejected token', async () => {
    const scene = await setScene(RICH.account);
    scene.fill();
    const { url } = await scene.start();
    async function expectFirstScreen(...words: readonly string[]): Promise<void> {
      const visited = await open(`${url}/`);
      const text = await visited.page.locator('main').innerText();
      for (const word of words) expect(text).toContain(word);
      await expectSound(visited);
      // An open page would be redrawn for every minute that the clock advances.
      await visited.close();
    }
    const pass = async (turns: number) => {
      for (let turn = 0; turn < turns; turn += 1) await scene.clock.advance(15_000);
    };
    await expectFirstScreen('No data yet', 'no data yet', 'not read yet');
    await untilRead(scene, url);
    await expectFirstScreen('All right', '5 dead letters', '1 s ago');
    const comeBack = scene.emulator.faults.add({ kind: 'status', status: 503 });
    await pass(8);
    const down = ['1 problem, 1 critical', 'service down', 'nothing has been read for 2 min'];
    await expectFirstScreen(...down, '5 dead letters', 'stale');
    for (let minute = 0; minute < 32; minute += 1) await scene.clock.advance(MINUTE);
    await expectFirstScreen('service down', 'nothing has been read for 34 min');
    comeBack();
    await untilRead(scene, url, 15_000);
    await expectFirstScreen('All right', '5 dead letters');
    const accept = scene.emulator.faults.add({ kind: 'status', status: 401 });
    await pass(2);
    await expectFirstScreen('1 critical', 'token rejected', 'DeliveryTokenRejected');
    accept();
    await untilRead(scene, url, 15_000);
    await expectFirstScreen('All right');
  });

  it('pages show an open breaker and its reason', async () => {
    const path = join(newFolder(), 'db');
    const scene = await setScene(RICH.account, { ...RICH.config, store: { kind: 'sqlite', path } });
    const opened = { at: scene.clock.now(), step: 'breaker_opened', breaker: 'errors', reason: '3 errors in 15m' };
    const store = await openSqliteStore({ path });
    await store.commit('acme', [{ key: 'auto-cancel/journal/000000000001', value: JSON.stringify(opened) }]);
    await store.close();
    const { url } = await scene.start();
    await untilRead(scene, url);
    for (const page of ['/', '/auto-cancel']) {
      const visited = await open(url + page);
      const text = await visited.page.locator('main').innerText();
      expect(text).toContain('breaker open');
      expect(text).toContain(page === '/' ? 'DeliveryAutoCancelBreakerOpen' : '3 errors in 15m');
      await expectSound(visited);
      await visited.close();
    }
  });

  it('pages draw recorded data as charts', async () => {
    const scene = await setScene(RICH.account, RICH.config);
    scene.fill();
    const { url } = await scene.start();
    await untilRead(scene, url);
    for (let minute = 0; minute < 5; minute += 1) await scene.clock.advance(MINUTE);
    const visited = await open(`${url}/accounts/acme`);
    const { page } = visited;
    await page.locator('figure[data-chart] canvas').first().waitFor();
    await expectSound(visited);
    // Changes appear without reloading the page.
    await page.evaluate('window.isTheSame = true');
    await page.evaluate("document.querySelector('figure[data-chart] canvas').isTheSame = true");
    scene.emulator.state.addDlqEntry({ enteredAt: scene.clock.now() });
    await eventually(async () => {
      await scene.clock.advance(15_000);
      expect(await page.locator(DEAD_LETTERS).first().getAttribute('value')).toBe('6');
    });
    expect(await page.evaluate('window.isTheSame')).toBe(true);
    // The chart is not redrawn from scratch either.
    expect(await page.evaluate("document.querySelector('figure[data-chart] canvas')?.isTheSame")).toBe(true);
    expect(visited.complaints).toEqual([]);
  });
});
