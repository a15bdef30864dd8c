import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { ReplicaAddress, ServedReplicas } from '../../src/http/served.ts';
import type { Served } from '../../src/status/served.ts';
import { startHttpServer } from '../../src/status/server.ts';
import { afterThisTest } from '../support/client.ts';
import { createTestLog } from '../support/silent.ts';
import { emptyServed } from './empty-served.ts';

/** Starts a replica that holds the account a until `moveTo` moves the account. */
async function start(id: string, overrides: Partial<Served> = {}) {
  const place: { now: ReturnType<ServedReplicas['placeOf']> } = {
    now: { isHere: true, holder: undefined, last: { id, url: '' } },
  };
  let refreshes = 0;
  const replicas: ServedReplicas = {
    self: { id, url: '' },
    async refresh() {
      refreshes += 1;
    },
    placeOf: () => place.now,
    unavailableSince: () => undefined,
  };
  const served: Served = {
    ...emptyServed,
    async exposition(_scope, _format, gzip) {
      const text = `by_replica{id="${id}"} 1\n`;
      return { contentType: 'text/plain', body: gzip ? gzipSync(text) : Buffer.from(text) };
    },
    replicas,
    ...overrides,
  };
  const server = await startHttpServer({ host: '127.0.0.1', port: 0 }, served, createTestLog());
  afterThisTest(() => server.close());
  const self = { id, url: server.url };
  place.now = { isHere: true, holder: self, last: self };
  return {
    self,
    refreshes: () => refreshes,
    /** Moves the account to another holder or to none. `last`: its previous holder. */
    moveTo(holder: ReplicaAddress | undefined, last: ReplicaAddress = holder ?? self) {
      place.now = { isHere: false, holder, last };
    },
    get: (path: string, init: RequestInit = {}) => fetch(server.url + path, init),
    async targets() {
      return (await (await fetch(`${server.url}/api/v1/sd`)).json()) as { targets: string[]; labels: object }[];
    },
  };
}

describe('service discovery with replicas', () => {
  it('service discovery of any replica returns one target per account, which is the holder of the account', async () => {
    const [one, two] = [await start('one'), await start('two')];
    two.moveTo(one.self);
    const targets = await one.targets();
    expect(targets).toEqual([
      {
        targets: [new URL(one.self.url).host],
        labels: {
          __scheme__: 'http',
          __metrics_path__: '/probe',
          __param_account: 'a',
          instance: 'delivery-watch/a',
          __meta_delivery_watch_replica: 'one',
        },
      },
    ]);
    expect(await two.targets()).toEqual(targets);
  });

  it('service discovery keeps all labels of the series when the account moves to another replica', async () => {
    const [one, two] = [await start('one'), await start('two')];
    const kept = ([target]: Awaited<ReturnType<typeof one.targets>>) =>
      Object.entries(target?.labels ?? {}).filter(([name]) => !name.startsWith('__'));
    const before = await one.targets();
    one.moveTo({ id: 'two', url: 'https://two.example:8443/watch/' });
    const after = await one.targets();
    expect(kept(after)).toEqual(kept(before));
    expect(kept(after)).toEqual([['instance', 'delivery-watch/a']]);
    expect(after[0]).toMatchObject({
      targets: ['two.example:8443'],
      labels: { __scheme__: 'https', __metrics_path__: '/watch/probe', __meta_delivery_watch_replica: 'two' },
    });
    two.moveTo(undefined, one.self);
    expect((await two.targets())[0]?.targets).toEqual([new URL(one.self.url).host]);
  });
});

describe('probes of accounts owned by another replica', () => {
  it('/probe of an account held by another replica redirects to the holder', async () => {
    const [one, two] = [await start('one'), await start('two')];
    two.moveTo(one.self);
    const first = await two.get('/probe?account=a', { redirect: 'manual' });
    expect([first.status, first.headers.get('location'), first.headers.get('cache-control')]).toEqual([
      307,
      `${one.self.url}/probe?account=a&sentOn=1`,
      'no-store',
    ]);
    const followed = await two.get('/probe?account=a');
    expect([followed.status, await followed.text()]).toEqual([200, 'by_replica{id="one"} 1\n']);
    expect((await two.get('/probe?account=b')).status).toBe(404);
    expect(two.refreshes()).toBe(0);
  });

  it('/probe does not redirect in a loop between replicas that each consider the other the holder', async () => {
    const [one, two] = [await start('one'), await start('two')];
    two.moveTo(one.self);
    one.moveTo(two.self);
    const answer = await two.get('/probe?account=a');
    expect([answer.status, answer.redirected, await answer.text()]).toEqual([
      503,
      true,
      'the account is not collected now: it is moving to another replica\n',
    ]);
  });

  it('/probe returns 503 if no replica holds the account, or if this replica is still acquiring it', async () => {
    const one = await start('one');
    one.moveTo(undefined);
    const none = await one.get('/probe?account=a');
    expect([none.status, none.headers.get('retry-after'), await none.text()]).toEqual([
      503,
      '5',
      'the account is not collected now: no replica holds it\n',
    ]);
    one.moveTo(one.self);
    expect((await one.get('/probe?account=a')).status).toBe(503);
    // Agent-wide families come from this replica.
    expect(await (await one.get('/metrics')).text()).toBe('by_replica{id="one"} 1\n');
  });
});

describe('routes that return cached data', () => {
  it.each(['/api/v1/status', '/api/v1/alerts', '/api/v1/accounts/a', '/accounts/a'])(
    'the route refreshes the data of other replicas first: %s',
    async path => {
      const one = await start('one');
      await one.get(path);
      expect(one.refreshes()).toBe(1);
    },
  );

  it('an unavailable database is reported by the history route and the account page, and the replica stays ready', async () => {
    const { account } = await import('./page/fixtures/account.ts');
    const replicas: ServedReplicas = {
      self: { id: 'one', url: '' },
      refresh: async () => undefined,
      placeOf: () => ({ isHere: true, holder: undefined, last: { id: 'one', url: '' } }),
      unavailableSince: () => Date.UTC(2026, 0, 1, 10, 2),
    };
    const history = async () => {
      throw new Error('the store can’t be read');
    };
    const { get } = await start('one', { replicas, account: () => account, history });
    const charts = await get('/api/v1/accounts/a/history?family=x');
    expect([charts.status, charts.headers.get('retry-after'), await charts.text()]).toEqual([
      503,
      '10',
      'the database is unavailable: try again\n',
    ]);
    expect(await (await get('/accounts/a')).text()).toContain('database unavailable');
    const ready = await get('/-/ready');
    expect(ready.status).toBe(200);
  });
});
