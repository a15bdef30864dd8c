import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/kit/secret.ts';
import type { RoundStatus } from '../../src/model/status.ts';
import {
  createAgentHeartbeat,
  createHeartbeat,
  failAddress,
  type Health,
  type HeartbeatAccount,
  healthOf,
} from '../../src/notify/heartbeat.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { createClock, createCounts, MINUTE, never } from '../rules/alerting-scene.ts';

import { createTestLog } from '../support/silent.ts';

const CANARY = 'https://hc.example/ping/canary';

function createScene() {
  const [log, { counts, notifications }] = [createTestLog(), createCounts()];
  const requests: string[] = [];
  const scene = {
    log,
    counts,
    requests,
    health: async (): Promise<Health | undefined> => ({ isHealthy: true }),
    get: async (): Promise<{ status: number }> => ({ status: 200 }),
    beat: () => beat(never),
  };
  const beat = createHeartbeat({
    url: async () => new Secret(CANARY),
    health: () => scene.health(),
    get(url) {
      requests.push(url);
      return scene.get();
    },
    notifications,
    log,
  });
  return scene;
}

describe('heartbeat of a single agent', () => {
  it('the heartbeat reports success or failure according to the health of the accounts, and logs the reason for a failure once', async () => {
    const scene = createScene();
    await scene.beat();
    scene.health = async () => ({ isHealthy: false, why: 'dlq/full of a is stale' });
    await scene.beat();
    await scene.beat();
    scene.health = async () => ({ isHealthy: true });
    await scene.beat();
    expect(scene.requests).toEqual([CANARY, `${CANARY}/fail`, `${CANARY}/fail`, CANARY]);
    expect(scene.counts).toEqual({ 'heartbeat sent': 4 });
    expect(scene.log.lines).toEqual([
      expect.objectContaining({ level: 'warn', fields: { notifier: 'heartbeat', why: 'dlq/full of a is stale' } }),
    ]);
  });

  it('the heartbeat is not sent before the first read or while the health cannot be determined', async () => {
    const scene = createScene();
    scene.health = async () => undefined;
    await scene.beat();
    scene.health = () => Promise.reject(new Error('disk full'));
    await scene.beat();
    await scene.beat();
    expect(scene.requests).toEqual([]);
    expect(scene.log.lines.map(({ message }) => message)).toEqual(['the heartbeat pauses: the agent is unhealthy']);
  });

  it('every heartbeat that cannot be sent is counted, but only the first is logged, without the URL', async () => {
    const scene = createScene();
    scene.get = () => Promise.reject(Object.assign(new Error(`connect ${CANARY}`), { code: 'ECONNREFUSED' }));
    await scene.beat();
    scene.get = async () => ({ status: 404 });
    await scene.beat();
    scene.get = async () => ({ status: 200 });
    await scene.beat();
    expect(scene.counts).toEqual({ 'heartbeat failed': 2, 'heartbeat sent': 1 });
    expect(scene.log.lines.map(({ level, message }) => `${level} ${message}`)).toEqual([
      'warn the heartbeat can’t be sent',
      'info the heartbeat is sent again',
    ]);
    expect(JSON.stringify(scene.log.lines)).not.toContain('canary');
  });

  it.each([
    ['https://hc.example/x', 'https://hc.example/x/fail'],
    ['https://hc.example/x/', 'https://hc.example/x/fail'],
    ['https://hc.example/x?create=1', 'https://hc.example/x/fail?create=1'],
    ['https://hc.example', 'https://hc.example/fail'],
  ])('the heartbeat to %s reports failures to %s', (address, fail) => expect(failAddress(address)).toBe(fail));
});

describe('account health', () => {
  const read: RoundStatus = {
    round: 'full',
    every: 1000,
    success: true,
    complete: true,
    durationSeconds: 1,
    dataAt: 1,
    consecutiveFailures: 0,
    idle: undefined,
    stale: false,
    failure: undefined,
  };
  const account = (
    round: Partial<RoundStatus>,
    rejected?: boolean,
    isTokenKnown = true,
    collector = 'dlq',
  ): HeartbeatAccount => ({
    name: 'a',
    isTokenKnown: () => isTokenKnown,
    isTokenRejected: () => rejected,
    status: () => ({
      account: 'a',
      up: true,
      collectors: [{ collector, withdrawn: false, rounds: [{ ...read, ...round }] }],
    }),
  });
  const failing = (why: string) => ({ isHealthy: false, why });

  it.each<[string, HeartbeatAccount[], Health | undefined]>([
    ['fresh data', [account({})], { isHealthy: true }],
    ['a failed attempt, but no stale data', [account({ success: false })], { isHealthy: true }],
    ['no data yet', [account({}), account({ dataAt: undefined })], undefined],
    ['nothing to read yet', [account({ dataAt: undefined, idle: 'not_due' })], { isHealthy: true }],
    ['stale data', [account({ dataAt: undefined }), account({ stale: true })], failing('dlq/full of a is stale')],
    [
      'an optional list that is stale or unread',
      [account({ stale: true }, false, true, 'schedules'), account({ dataAt: undefined }, false, true, 'schedules')],
      { isHealthy: true },
    ],
    ['a rejected token', [account({}, true)], failing('the token of a is rejected')],
    ['a token rejected before this process started', [account({}, true, false)], undefined],
    [
      'many rejected tokens',
      Array.from({ length: 12 }, () => account({}, true)),
      failing(`${'the token of a is rejected, '.repeat(9)}the token of a is rejected and 2 more`),
    ],
  ])('healthOf evaluates the health of accounts: %s', (_name, accounts, health) =>
    expect(healthOf(accounts)).toEqual(health),
  );
});

describe('heartbeats with replicas', () => {
  const ok = (name: string, isRejected = false): HeartbeatAccount => ({
    name,
    isTokenKnown: () => true,
    isTokenRejected: () => isRejected,
    status: () => ({ account: name, up: true, collectors: [] }),
  });

  function createScene() {
    const clock = createClock();
    const requests: string[] = [];
    const store = createMemoryStore();
    const lease = { left: 1000, isAvailable: true };
    const log = createTestLog();
    const commit: typeof store.commit = async (...what) => {
      if (!lease.isAvailable) throw new Error('away');
      await store.commit(...what);
    };
    const heartbeat = (accounts: readonly HeartbeatAccount[]) =>
      createAgentHeartbeat({
        config: { heartbeat: { url: { literal: new Secret(CANARY) }, every: MINUTE } },
        env: {},
        accounts: () => accounts,
        configured: () => ['a', 'b'],
        store: { commit },
        leadership: { remaining: () => lease.left },
        clock,
        get: async url => {
          requests.push(url === CANARY ? 'healthy' : 'unhealthy');
          return { status: 200 };
        },
        notifications: createCounts().notifications,
        log,
      });
    const beat = async (...accounts: readonly HeartbeatAccount[]) => {
      await heartbeat(accounts)?.(never);
      return requests.splice(0);
    };
    return { beat, lease };
  }

  it('the heartbeat is sent once every configured account is open and read', async () => {
    const { beat } = createScene();
    expect(await beat(ok('a'))).toEqual([]);
    expect(await beat(ok('a'), ok('b'))).toEqual(['healthy']);
    expect(await beat(ok('a', true))).toEqual(['unhealthy']);
  });

  it('the heartbeat pauses while the lease has no time left, and while the database is unavailable', async () => {
    const { beat, lease } = createScene();
    lease.left = 0;
    expect(await beat(ok('a'), ok('b'))).toEqual([]);
    Object.assign(lease, { left: 1000, isAvailable: false });
    expect(await beat(ok('a'), ok('b')).catch(() => [])).toEqual([]);
  });
});
