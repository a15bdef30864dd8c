import { describe, expect, it } from 'vitest';
import type { Views } from '../../../src/status/served.ts';
import { ALICE, serve, USERS } from '../../http/protected-server.ts';
import type { ServedChanges } from '../empty-served.ts';

const start = (overrides: ServedChanges = {}) => serve(USERS, overrides);
const PATHS = ['overview', 'accounts/a', 'accounts/a/history?family=x', 'auto-cancel', 'openapi.json'];

/** Returns a function that resolves with this view. */
const shown = (answer: unknown) => async () => answer as never;
const ALL: ServedChanges = {
  overview: shown({ which: 'overview' }),
  account: name => ({ which: name }) as never,
  history: shown({ which: 'history' }),
  autoCancel: shown({ which: 'auto-cancel' }),
};

describe('the JSON API of the pages', () => {
  it.each(PATHS)(
    'GET /api/v1/%s returns JSON with Cache-Control: no-store; HEAD has no body, and POST is rejected',
    async path => {
      const { ask } = await start(ALL);
      const { status, headers, text } = await ask(`/api/v1/${path}`, ALICE);
      expect([status, headers['cache-control'], headers['content-type']]).toEqual([
        200,
        'no-store',
        'application/json; charset=utf-8',
      ]);
      expect(JSON.parse(text)).toBeTypeOf('object');
      const head = await ask(`/api/v1/${path}`, { method: 'HEAD', ...ALICE });
      expect([head.status, head.headers['content-length'], head.text]).toEqual([200, headers['content-length'], '']);
      const post = await ask(`/api/v1/${path}`, { method: 'POST', ...ALICE });
      expect([post.status, post.headers.allow]).toEqual([405, 'GET, HEAD']);
    },
  );

  it.each([
    ['overview?state=bad', 'state must be one of any, critical, warning, unknown, ok'],
    ['overview?page=0', 'page must be a whole number from 1 to 100000'],
    ['overview?page=', 'page must be a whole number from 1 to 100000'],
    ['overview?per=1e9', 'per must be a whole number from 1 to 1000'],
    ['overview?page=1&page=2', 'page must be given once'],
    [`overview?q=${'x'.repeat(201)}`, 'q must have at most 200 characters'],
    [
      'overview?sort=account&page=x',
      'page must be a whole number from 1 to 100000; unknown parameter sort: allowed parameters are q, state, page, per',
    ],
    ['alerts?a=1&b=1', 'unknown parameters a, b: no parameters are allowed'],
    ['auto-cancel?account=a&account=b', 'account must be given once'],
    ['auto-cancel?account=%00', 'account must be the name of an account'],
    ['accounts/a/history', 'family must be the name of a metric family and may be repeated'],
    ['accounts/a/history?family=a{b}', 'family must be the name of a metric family and may be repeated'],
    ['accounts/a/history?family=x&family=a{b}', 'family must be the name of a metric family and may be repeated'],
    [`accounts/a/history?${'family=x&'.repeat(21)}`, 'family must be given at most 20 times'],
    ['accounts/a/history?family=x&over=1y', 'over must be a duration such as 48h'],
    ['accounts/%ff', 'the path must be UTF-8, percent-encoded'],
  ])('GET /api/v1/%s is rejected with a one-sentence error', async (path, error) => {
    const { ask } = await start(ALL);
    const { status, text } = await ask(`/api/v1/${path}`, ALICE);
    expect([status, JSON.parse(text)]).toEqual([400, { error }]);
  });

  it('API routes apply defaults to queries and accept one or several families', async () => {
    const asked: unknown[] = [];
    const { ask } = await start({
      overview: async query => void asked.push(query) as never,
      history: async (_name, query) => void asked.push(query) as never,
    });
    await ask('/api/v1/overview?q=pay&per=7', ALICE);
    await ask('/api/v1/accounts/a/history?family=x', ALICE);
    await ask('/api/v1/accounts/a/history?family=x&family=y&over=1h&points=10', ALICE);
    expect(asked).toEqual([
      { q: 'pay', state: 'any', page: 1, per: 7 },
      { family: ['x'], over: '48h', points: 720 },
      { family: ['x', 'y'], over: '1h', points: 10 },
    ]);
  });

  it('API routes return 404 for accounts that are not configured', async () => {
    const { ask } = await start({ ...ALL, account: () => undefined, history: async () => undefined });
    for (const path of ['accounts/b', 'accounts/b/history?family=x', 'auto-cancel?account=b']) {
      expect(await ask(`/api/v1/${path}`, ALICE)).toMatchObject({
        status: 404,
        text: '{"error":"no account with that name is configured"}',
      });
    }
  });

  it('API routes return 503 for a configured account that is not open yet', async () => {
    const { ask } = await start({ ...ALL, account: () => undefined, history: async () => undefined });
    for (const path of ['accounts/a', 'accounts/a/history?family=x']) {
      expect(await ask(`/api/v1/${path}`, ALICE)).toMatchObject({
        status: 503,
        headers: { 'retry-after': '5' },
        text: '{"error":"the account is not open yet"}',
      });
    }
  });

  it('API routes compute responses sequentially, and continue after a failed one', async () => {
    let [atOnce, most] = [0, 0];
    const overview: Views['overview'] = async () => {
      atOnce += 1;
      most = Math.max(most, atOnce);
      await new Promise(resolve => setImmediate(resolve));
      atOnce -= 1;
      throw new Error('bug');
    };
    const { status } = await start({ ...ALL, overview });
    const codes = await Promise.all(
      ['overview', 'overview', 'auto-cancel'].map(path => status(`/api/v1/${path}`, ALICE)),
    );
    expect([codes, most]).toEqual([[500, 500, 200], 1]);
  });
});
