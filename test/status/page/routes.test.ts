import { readdirSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import type { HttpServer } from '../../../src/http/server.ts';
import { startHttpServer } from '../../../src/status/server.ts';
import { createTestLog } from '../../support/silent.ts';
import { emptyViews, type ServedChanges, servedWith } from '../empty-served.ts';
import { overview, row } from './fixtures/overview.ts';

const servers: HttpServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function serve(overrides: ServedChanges = {}) {
  const log = createTestLog();
  const server = await startHttpServer({ host: '127.0.0.1', port: 0 }, servedWith(overrides), log);
  servers.push(server);
  const get = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(server.url + path, init);
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
  return { get, log };
}

/** Returns the URLs of style sheets and scripts in a page. */
const needed = (text: string) =>
  [...text.matchAll(/(?:<link rel="stylesheet" href|<script[^>]* src)="([^"]+)"/g)].map(([, url = '']) => url);

describe('page routes', () => {
  it('pages are not cached or framed, and load only their own resources', async () => {
    const { get } = await serve();
    const { headers, text } = await get('/');
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    });
    expect(headers.get('content-encoding')).toBe('gzip');
    const plain = await get('/', { headers: { 'accept-encoding': 'identity' } });
    expect(plain.headers.get('content-encoding')).toBeNull();
    expect(plain.text.length).toBe(text.length);
  });

  it('pages reference assets by content hash, so that the assets can be cached forever', async () => {
    const { get } = await serve();
    const urls = needed((await get('/')).text);
    expect(urls.map(url => url.replace(/[0-9a-f]{16}/, 'HASH'))).toEqual([
      'assets/HASH/style.css',
      'assets/HASH/client.js',
    ]);
    const folder = urls[0]?.split('/')[1];
    for (const [name, type] of [
      ['style.css', 'text/css'],
      ['client.js', 'text/javascript'],
      ['age.js', 'text/javascript'],
      ['uplot.js', 'text/javascript'],
      ['uplot.css', 'text/css'],
    ]) {
      const { status, headers, text } = await get(`/assets/${folder}/${name}`);
      expect([name, status, headers.get('content-type')]).toEqual([name, 200, `${type}; charset=utf-8`]);
      expect(headers.get('cache-control')).toBe('max-age=31536000, immutable');
      expect(text.length).toBeGreaterThan(500);
      expect((await get(`/assets/0123456789abcdef/${name}`)).headers.get('cache-control')).toBe('no-store');
    }
  });

  it.each(['../layout.ts', '..%2flayout.ts', 'tsconfig.json', 'constructor', '%2e%2e/html.ts', '%zz'])(
    'the asset route serves no other files: %s',
    async name => {
      const { get } = await serve();
      expect((await get(`/assets/0123456789abcdef/${name}`)).status).toBe(404);
    },
  );

  it('pages of unknown accounts show an error with working links', async () => {
    const { get, log } = await serve();
    for (const name of ['nowhere', '%3Cscript%3E', '%zz', '..%2f..%2fetc']) {
      const { status, text } = await get(`/accounts/${name}`);
      expect([name, status]).toEqual([name, 404]);
      expect(text).toContain('No account with that name is configured');
      expect(text).toContain('<a href="../" aria-current="true">Accounts</a>');
      for (const url of needed(text)) expect(url).toMatch(/^\.\.\/assets\//);
    }
    expect(log.lines).toEqual([]);
  });

  it('pages of an account that is not open yet say so instead of reporting an unknown name', async () => {
    const { get } = await serve({ accounts: ['new'], account: () => undefined });
    for (const path of ['/accounts/new', '/accounts/new/dlq']) {
      const { status, text } = await get(path);
      expect([path, status]).toEqual([path, 503]);
      expect(text).toContain('The account is not open yet.');
    }
  });

  it('pages apply query parameters, with defaults for invalid ones', async () => {
    const asked: unknown[] = [];
    const { get } = await serve({
      overview: query => {
        asked.push(query);
        return emptyViews.overview(query);
      },
    });
    await get('/?q=pay&state=warning&page=3');
    await get('/?q=a&q=b&state=nothing');
    await get('/?q=pay&state=bad');
    const usual = { q: '', state: 'any', page: 1, per: 100 };
    expect(asked).toEqual([{ ...usual, q: 'pay', state: 'warning', page: 3 }, usual, { ...usual, q: 'pay' }]);
  });

  it('runbook pages show every runbook and no other file', async () => {
    const { get } = await serve();
    const names = readdirSync(new URL('../../../docs/runbooks/', import.meta.url));
    expect(names.length).toBeGreaterThan(20);
    for (const name of names) {
      const { status, text } = await get(`/runbooks/${name.replace('.md', '')}`);
      expect([status, text]).toEqual([200, expect.stringContaining('<p>Do: ')]);
      // No Markdown syntax remains.
      expect(text.slice(text.indexOf('<article'), text.indexOf('</article>'))).not.toMatch(
        /`|\]\(|^#|^- |\*[A-Z]|[a-z)]\*/m,
      );
      for (const [, link = ''] of text.matchAll(/<a href="(\w+)">/g)) expect(names).toContain(`${link}.md`);
    }
    expect((await get('/runbooks/DeliveryTokenRejected.md')).status).toBe(200);
    const { text } = await get('/runbooks/DeliveryTokenRejected');
    expect(text).toContain('<li>Is it the token of this region? Each region has a separate token.</li>');
    expect(text).toContain('<code>rotate-token</code> again to finish it: docs/access.md.</li>');
    expect((await get('/runbooks/DeliveryDeadLetters')).text).toContain('<a href="DeliveryDlqGrowing">in batches</a>');
    const { text: growing } = await get('/runbooks/DeliveryDlqGrowing');
    expect(growing).toContain('<em>By host</em> and <em>');
    expect(growing).toContain(' docs/inspect.md explains both');
    expect(growing).toContain(' filters (docs/inspect.md) work');
    for (const name of ['..%2fmetrics', 'Nothing', '']) {
      expect((await get(`/runbooks/${name}`)).status, name).toBe(404);
    }
  });

  it('pages are rendered sequentially, and not for disconnected clients', async () => {
    let [making, most, made] = [0, 0, 0];
    const { promise: isOver, resolve: release } = Promise.withResolvers<void>();
    const { get } = await serve({
      async overview() {
        made += 1;
        making += 1;
        most = Math.max(most, making);
        await isOver;
        making -= 1;
        return overview([row('a')]);
      },
    });
    const left = new AbortController();
    const first = get('/');
    const gone = get('/?q=gone', { signal: left.signal }).catch(() => 'left');
    const others = Array.from({ length: 20 }, () => get('/'));
    // The server has received all requests once it has responded to later ones.
    for (let times = 0; times < 20; times += 1) expect((await get('/-/healthy')).status).toBe(200);
    left.abort();
    for (let times = 0; times < 20; times += 1) await get('/-/healthy');
    release();
    const answers = await Promise.all([first, ...others]);
    expect(await gone).toBe('left');
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect([most, made]).toEqual([1, 21]);
  });

  it('pages allow only GET and HEAD', async () => {
    const { get } = await serve();
    for (const path of ['/', '/auto-cancel', '/accounts/a', '/runbooks/x', '/assets/x/style.css']) {
      const { status, headers } = await get(path, { method: 'POST' });
      expect([path, status, headers.get('allow')]).toEqual([path, 405, 'GET, HEAD']);
    }
    expect(await get('/', { method: 'HEAD' })).toMatchObject({ status: 200, text: '' });
  });

  it('pages are not found at paths with a trailing slash, because their relative links would be wrong', async () => {
    const { get } = await serve();
    expect((await get('/auto-cancel/')).status).toBe(404);
  });
});
