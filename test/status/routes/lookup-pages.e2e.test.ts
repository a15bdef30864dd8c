import { expect, it } from 'vitest';
import { RequestError } from '../../../src/status/lookups.ts';
import { ALICE, serve, USERS } from '../../http/protected-server.ts';
import type { ServedChanges } from '../empty-served.ts';
import { read } from '../page/context.ts';
import { account } from '../page/fixtures/account.ts';
import { found, lookupsThat } from '../page/fixtures/lookup.ts';

const PATHS = ['dlq', 'events', 'messages/m1'];

/** Starts a server with one account whose look-ups are recorded and return the result of `find`. */
async function serveLookups(
  find: (kind: keyof typeof found) => unknown = kind => found[kind],
  overrides: ServedChanges = {},
) {
  const calls: unknown[] = [];
  const lookups = lookupsThat((kind, name, query) => {
    calls.push([kind, name, query]);
    return find(kind);
  });
  const server = await serve(USERS, { lookups, account: () => account, ...overrides });
  const get = (path: string) => server.ask(path, ALICE);
  return { ...server, get, calls };
}

it('look-up pages accept the filters of the API and ignore other parameters', async () => {
  const { get, calls } = await serveLookups();
  for (const path of ['dlq?kind=k&queue=q&limit=200&utm=x', 'events?state=FAILED&account=b', 'messages/m1?x=y']) {
    const { status, headers, text } = await get(`/accounts/a/${path}`);
    expect([status, headers['cache-control'], headers['content-type']]).toEqual([
      200,
      'no-store',
      'text/html; charset=utf-8',
    ]);
    // The page has no live updates, because each would be another look-up.
    expect(text).not.toContain('data-live>');
    expect(text).not.toMatch(/<section[^>]* data-live/);
  }
  expect(calls).toEqual([
    ['dlq', 'a', { kind: 'k', queue: 'q', limit: 50 }],
    ['events', 'a', { state: 'FAILED', limit: 50 }],
    ['message', 'a', 'm1'],
  ]);
});

it('all links of a look-up page lead to existing pages, from any depth', async () => {
  const { get } = await serveLookups();
  for (const path of PATHS.map(each => `/accounts/a/${each}`)) {
    const { text } = await get(path);
    const urls = [...text.matchAll(/(?:href|src)="([^"#:]+)"/g)].map(
      ([, url = '']) => new URL(url.replaceAll('&amp;', '&'), `http://host${path}`),
    );
    expect(urls.length).toBeGreaterThan(8);
    const paths = urls.map(url => url.pathname).filter(url => !/^\/(assets|api|metrics)/.test(url));
    for (const url of paths)
      expect(url).toMatch(/^\/(agent|auto-cancel|accounts\/production(\/dlq|\/messages\/msg_1)?)?$/);
  }
});

it.each(PATHS)('/accounts/a/%s requires a user and accepts only GET and HEAD', async path => {
  const { ask, status, calls } = await serveLookups();
  expect(await status(`/accounts/a/${path}`)).toBe(401);
  expect(calls).toEqual([]);
  const post = await ask(`/accounts/a/${path}`, { method: 'POST', ...ALICE });
  expect([post.status, post.headers.allow]).toEqual([405, 'GET, HEAD']);
});

it.each(PATHS)('the page %s of an unknown account returns 404 without a request to the service', async path => {
  const { get, calls } = await serveLookups();
  for (const name of ['b', '%zz', '%3Cscript%3E']) {
    const { status, text } = await get(`/accounts/${name}/${path}`);
    expect([status, text]).toEqual([404, expect.stringContaining('No account with that name is configured')]);
  }
  expect(calls).toEqual([]);
});

it.each([
  ['dlq?status=x', 'status must be an HTTP status code'],
  ['dlq?kind=a&kind=b', 'kind must be given once'],
  ['events?state=x', 'state must be one of CREATED'],
  ['messages/a%2Fb', 'the message id must be 1 to 200'],
])('a look-up page shows an error for an invalid query: %s', async (path, words) => {
  const { get, calls } = await serveLookups();
  const { status, text } = await get(`/accounts/a/${path}`);
  expect([status, read(text)]).toEqual([400, expect.stringContaining(`failed with status 400: ${words}`)]);
  expect(calls).toEqual([]);
});

const FAILURES: readonly (readonly [status: number, retryAfter: number | undefined])[] = [
  [404, undefined],
  [429, 90_000],
  [502, undefined],
  [503, 5000],
];

it.each(FAILURES)('a look-up page shows why its look-up failed: %s', async (code, retryAfter) => {
  const { get, log } = await serveLookups(() => {
    throw new RequestError(code, 'it <b>fails</b>', retryAfter);
  });
  for (const path of PATHS) {
    const { status, headers, text } = await get(`/accounts/a/${path}`);
    expect([path, status, headers['retry-after']]).toEqual([path, code, retryAfter && String(retryAfter / 1000)]);
    expect(text).toContain(
      `The look-up failed with status ${code}: <bdi class="name">it &lt;b&gt;fails&lt;/b&gt;</bdi>`,
    );
    expect(text).toContain('</html>');
  }
  expect(log.lines).toEqual([]);
});

it('a look-up page responds with 500 if a look-up throws an unexpected error', async () => {
  const { get } = await serveLookups(() => {
    throw new Error('bug');
  });
  expect((await get('/accounts/a/dlq')).status).toBe(500);
});

it('a slow look-up does not delay other pages', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { get } = await serveLookups(async kind => {
    await promise;
    return found[kind];
  });
  const slow = get('/accounts/a/dlq');
  expect((await get('/accounts/a')).status).toBe(200);
  expect((await get('/')).status).toBe(200);
  resolve();
  expect((await slow).status).toBe(200);
});
