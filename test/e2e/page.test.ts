import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startAgent } from '../../src/app/agent.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { hasChromium, launchBrowser, type Visited, type VisitOptions, visit } from '../support/browser.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { valueAt } from '../support/page-values.ts';
import { parseExposition } from '../support/parse-exposition.ts';
import { exposedValue, shownNumbers } from '../support/view-families.ts';
import { loadedFrom } from '../support/view-scene.ts';

const MINUTE = 60_000;
const TOKEN = 'page-token-canary';
const HOSTILE = `<script>document.title='pwned'</script>"'><img src=x onerror=alert(1)>\u202e\u0000${'w'.repeat(200)}`;

/** An agent with a port, whose time stands still until it is moved on: what a page shows can be compared. */
async function setScene(account: object = {}, config: object = {}, names: readonly string[] = ['acme']) {
  const clock = createManualClock(Date.UTC(2026, 0, 1, 12));
  const emulator = await emulateEmpty({ clock, token: TOKEN, dialect: { flowControlFields: 'all' } });
  const common = { baseUrl: emulator.url, token: TOKEN, budget: { requestsPerSecond: 1000, burst: 1000 } };
  const loaded = loadedFrom({
    server: { listen: '127.0.0.1:0' },
    accounts: names.map(name => ({ name, ...common, ...account })),
    ...config,
  });
  const fill = () => {
    const { state } = emulator;
    for (const [index, responseStatus] of [500, 404, 503, 0].entries()) {
      const enteredAt = clock.now() - (index + 1) * MINUTE;
      const url = `https://api.example.com/v1/orders/${index}?token=${TOKEN}`;
      state.addDlqEntry({ enteredAt, createdAt: enteredAt, responseStatus, url, label: HOSTILE, queueName: HOSTILE });
    }
    state.addFailedRun({
      enteredAt: clock.now() - 10 * MINUTE,
      workflowUrl: `https://flow.example.com/run?t=${TOKEN}`,
    });
    state.setWaitlist('mail/send', 12);
    state.setWaitlist(HOSTILE, 3);
  };
  async function start() {
    const agent = await startAgent(loaded, { env: {}, clock, random: () => 0 });
    afterThisTest(() => agent.close());
    return agent;
  }
  return { clock, emulator, fill, start };
}

type Scene = Awaited<ReturnType<typeof setScene>>;

const getJson = async (url: string): Promise<unknown> => (await fetch(url)).json();

/** Lets time go by until the account was read whole. */
async function untilRead({ clock }: Scene, url: string, step = 1000): Promise<void> {
  await eventually(async () => {
    await clock.advance(step);
    const view = await getJson(`${url}/api/v1/accounts/acme`);
    const data = ['deadLetters', 'events', 'flowControl'].map(section => valueAt(view, `${section}.data`));
    expect(data).toEqual(['fresh', 'fresh', 'fresh']);
  });
}

const RICH = {
  account: { retention: { dlq: '7d' }, limits: { dlqSize: 1000 }, labels: { note: HOSTILE }, region: 'eu-west-1' },
  config: {
    collect: {
      dlq: { filters: [{ name: 'status-500', match: { responseStatus: 500 } }], breakdowns: ['urlHost', 'label'] },
      events: { destination: 'host' },
    },
    schedules: [{ name: 'nightly', match: { scheduleId: 'scd_1' }, cron: '* * * * *', grace: '1m' }],
    autoCancel: {
      mode: 'plan',
      rules: [{ name: 'hung', match: { url: { prefix: ['https://'] } }, stuckWhen: { inProgressFor: '48h' } }],
    },
  },
};

/** Where each page's numbers come from. */
const PAGES = {
  '/': '/api/v1/overview',
  '/accounts/acme': '/api/v1/accounts/acme',
  '/auto-cancel': '/api/v1/auto-cancel',
  '/agent': '/api/v1/agent',
};

/** What must not be on any page. */
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

  it('say what API and exposition say, and hold nothing hostile, foreign or out of reach', async () => {
    const scene = await setScene(RICH.account, RICH.config);
    scene.fill();
    const { url } = await scene.start();
    await untilRead(scene, url);
    for (const [path, route] of Object.entries(PAGES)) {
      const wide = await open(url + path);
      const answer = await getJson(url + route);
      const shown = await wide.values();
      expect(shown.length, path).toBeGreaterThan(3);
      const right = shown.map(({ path }) => ({ path, value: String(valueAt(answer, path) ?? '') }));
      expect(shown.filter(({ path }) => path !== 'residentBytes')).toEqual(
        right.filter(({ path }) => path !== 'residentBytes'),
      );
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

  it('show what changes without being loaded again, and leave alone what is being typed', async () => {
    const scene = await setScene({}, {}, ['acme', 'other']);
    scene.fill();
    const { url } = await scene.start();
    await untilRead(scene, url);
    const { page, complaints } = await open(`${url}/`);
    const search = page.getByRole('searchbox');
    await search.focus();
    scene.emulator.state.addDlqEntry({ enteredAt: scene.clock.now() });
    await eventually(async () => {
      await scene.clock.advance(15_000);
      expect(await page.locator('[data-path="rows.0.deadLetters"]').first().getAttribute('value')).toBe('6');
    });
    expect(await page.evaluate('document.activeElement.type')).toBe('search');
    await search.pressSequentially('oth');
    await eventually(async () => {
      expect(await page.getByRole('link', { name: 'acme' }).count()).toBe(0);
      expect(await page.getByRole('link', { name: 'other' }).count()).toBeGreaterThan(0);
    });
    expect(await search.inputValue()).toBe('oth');
    expect(complaints).toEqual([]);
  });

  it('work without JavaScript', async () => {
    const scene = await setScene({}, {}, ['acme', 'other']);
    scene.fill();
    const { url } = await scene.start();
    await untilRead(scene, url);
    const { page } = await open(`${url}/`, { javaScriptEnabled: false });
    await page.getByRole('searchbox').fill('acm');
    await page.getByRole('searchbox').press('Enter');
    await page.waitForURL(/q=acm/);
    expect(await page.getByRole('link', { name: 'other' }).count()).toBe(0);
    await page.getByRole('link', { name: 'acme' }).last().click();
    await page.waitForURL(/accounts\/acme/);
    expect(await page.locator('[data-path="deadLetters.messages"]').first().getAttribute('value')).toBe('5');
  });

  it('show each kind of trouble as what it is', async () => {
    const scene = await setScene(RICH.account);
    scene.fill();
    const { url } = await scene.start();
    async function expectFirstScreen(...words: readonly string[]): Promise<void> {
      const visited = await open(`${url}/`);
      const text = await visited.page.locator('main').innerText();
      for (const word of words) expect(text).toContain(word);
      await expectSound(visited);
      // Or it would draw every minute that goes by from here on.
      await visited.close();
    }
    const pass = async (turns: number) => {
      for (let turn = 0; turn < turns; turn += 1) await scene.clock.advance(15_000);
    };
    await expectFirstScreen('Nothing read yet', 'no data yet', 'not read yet');
    await untilRead(scene, url);
    await expectFirstScreen('All right', '5 dead letters', '1 s ago');
    const comeBack = scene.emulator.faults.add({ kind: 'status', status: 503 });
    await pass(8);
    const down = ['1 problem, 1 critical — since 12:00 UTC', 'service down', 'The service has answered 503 for 2 min'];
    await expectFirstScreen(...down, '5 dead letters', 'stale');
    for (let minute = 0; minute < 32; minute += 1) await scene.clock.advance(MINUTE);
    await expectFirstScreen('service down', 'nothing is shown any more', 'withdrawn');
    comeBack();
    await untilRead(scene, url, 15_000);
    await expectFirstScreen('All right', '5 dead letters');
    const accept = scene.emulator.faults.add({ kind: 'status', status: 401 });
    await pass(2);
    await expectFirstScreen('1 critical', 'token refused', 'DeliveryTokenRejected');
    accept();
    await untilRead(scene, url, 15_000);
    await expectFirstScreen('All right');
  });

  it('show a breaker that is open, and why', async () => {
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

  it('draw what was recorded', async () => {
    const scene = await setScene(RICH.account, RICH.config);
    scene.fill();
    const { url } = await scene.start();
    await untilRead(scene, url);
    for (let minute = 0; minute < 5; minute += 1) await scene.clock.advance(MINUTE);
    const visited = await open(`${url}/accounts/acme`);
    await visited.page.locator('figure[data-chart] canvas').first().waitFor();
    await expectSound(visited);
  });
});
