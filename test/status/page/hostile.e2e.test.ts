import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HistoryView } from '../../../src/status/api/history.ts';
import { PASSWORD, serve, USERS } from '../../http/protected-server.ts';
import { hasChromium, launchBrowser, visit } from '../../support/browser.ts';
import { account, hostile } from './fixtures/account.ts';
import { hostileAutoCancel } from './fixtures/auto-cancel.ts';
import { found, lookupsThat } from './fixtures/lookup.ts';
import { HOSTILE, NOW, overview, row, TROUBLED } from './fixtures/overview.ts';

const httpCredentials = { username: 'alice', password: PASSWORD };

const MORE = [
  ...HOSTILE,
  '</script><script>alert(2)</script>',
  '<!--',
  ']]>',
  '&lt;img src=x onerror=alert(3)&gt;',
  '</title><svg onload=alert(4)>',
  '" data-live data-command="approve" onfocus="alert(5)" autofocus x="',
  '{color:red}</style><style>*{background:url(//x.example)}',
  'data:text/html,<script>alert(6)</script>',
  '__proto__',
  'constructor',
  'toString',
  '\u0000\u2066\u202e\u2028\ufffd',
];

const alertOf = (text: string) => ({
  state: 'firing' as const,
  labels: { alertname: text, account: text, severity: text, [text]: text },
  annotations: { summary: text, runbook_url: text },
  value: 1,
});

const [deadLetter] = found.dlq.rows;
const withText = (row: object | undefined, text: string) =>
  Object.fromEntries(
    Object.entries(row ?? {}).map(([key, value]) => [
      key,
      typeof value === 'string' && !/At$|time/.test(key) ? text : value,
    ]),
  );
/** Look-ups that return hostile texts, with one row per text. */
const hostileLookups = lookupsThat(kind => {
  const all = MORE.join(' ');
  if (kind === 'message')
    return { ...found.message, url: all, queue: all, label: all, deadLetter: withText(deadLetter, all) };
  const { rows } = found[kind];
  return { ...found[kind], rows: MORE.map(text => withText(rows[0], text)) };
});

/** Returns a history that uses these names as label values, with two samples per series. */
const history = (names: readonly string[]): HistoryView => ({
  now: new Date(NOW).toISOString(),
  account: 'a',
  keptFor: '48h',
  times: [NOW / 1000 - 120, NOW / 1000 - 60],
  series: names.flatMap(name => [
    {
      family: 'delivery_flow_control_waitlist_size',
      labels: { flow_control_key: name },
      values: [1, Number.MAX_SAFE_INTEGER],
    },
    { family: 'delivery_events_total', labels: { state: name }, values: [1, null] },
    { family: 'delivery_message_time_to_deliver_seconds_bucket', labels: { le: name }, values: [-5, 5] },
  ]),
});

describe.skipIf(!hasChromium)('in a browser', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(() => browser.close());

  it('pages with hostile names run no injected scripts, request nothing from other origins and stay intact', async () => {
    const [first] = account.flowControl.rows;
    const { server } = await serve(USERS, {
      externalUrl: 'https://dw.example.com',
      overview: async () => ({
        ...overview(MORE.map(text => row(text, { labels: { [text]: text }, worst: TROUBLED.problems[0] ?? null }))),
        problems: MORE.map(text => ({
          account: text,
          kind: 'dlq_growing' as const,
          severity: 'warning' as const,
          subject: text,
          since: null,
          text,
          runbook: text,
        })),
        alerts: MORE.map(alertOf),
      }),
      account: () => ({
        ...hostile,
        account: 'a',
        alerts: MORE.map(alertOf),
        labels: Object.fromEntries(MORE.map(text => [text, text])),
        flowControl: {
          ...account.flowControl,
          rows: first ? MORE.map(key => ({ ...first, key, waiting: 1e308, saturation: -1 })) : [],
        },
      }),
      history: async () => history(MORE),
      autoCancel: async () => hostileAutoCancel,
      lookups: hostileLookups,
      reloadErrors: () => MORE.map(message => ({ file: message, message })),
    });
    for (const path of [
      '/',
      '/accounts/a',
      '/auto-cancel',
      `/accounts/a/dlq?${new URLSearchParams({ kind: MORE[1] ?? '', queue: MORE.join('') })}`,
      '/accounts/a/events',
      '/accounts/a/messages/m1',
      `/?q=${encodeURIComponent('"><script>alert(7)</script>')}`,
    ]) {
      const { page, complaints, foreign } = await visit(browser, server.url + path, { httpCredentials });
      if (path === '/accounts/a') await page.locator('figure:not(.empty) canvas').first().waitFor();
      const links = await page.locator('a[href]').evaluateAll(all => all.map(each => each.getAttribute('href') ?? ''));
      expect(links.filter(link => /^\s*(javascript|data|vbscript):/i.test(link))).toEqual([]);
      expect(await page.locator('script:not([src]), [onfocus], [onload], [onerror], svg, img').count()).toBe(0);
      const looks = await page.locator('[class]').evaluateAll(all => all.map(each => each.getAttribute('class') ?? ''));
      expect(looks.filter(look => !/^[a-z0-9_ -]*$/.test(look))).toEqual([]);
      expect([path, complaints, foreign]).toEqual([path, [], []]);
    }
  });
});
