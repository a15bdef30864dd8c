import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/kit/secret.ts';
import type { RoundStatus } from '../../src/model/status.ts';
import { createHeartbeat, failAddress, type HeartbeatAccount, healthOf } from '../../src/notify/heartbeat.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { createClock, createCounts, MINUTE, never } from '../rules/alerting-scene.ts';

import { createTestLog } from '../support/silent.ts';

const CANARY = 'https://hc.example/ping/canary';

const READ: RoundStatus = {
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

const accountWith = (
  round: Partial<RoundStatus>,
  { name = 'a', isRejected = false, isTokenKnown = true, collector = 'dlq' } = {},
): HeartbeatAccount => ({
  name,
  isTokenKnown: () => isTokenKnown,
  isTokenRejected: () => isRejected,
  status: () => ({
    account: name,
    up: true,
    collectors: [{ collector, withdrawn: false, rounds: [{ ...READ, ...round }] }],
  }),
});

function createScene(leadership?: { remaining(): number }) {
  const [log, { counts, notifications }, store] = [createTestLog(), createCounts(), createMemoryStore()];
  const requests: string[] = [];
  const scene = {
    log,
    counts,
    requests,
    accounts: [accountWith({})],
    configured: ['a'],
    commit: store.commit,
    get: async (): Promise<{ status: number }> => ({ status: 200 }),
    beat: () => beat(never),
  };
  const beat = createHeartbeat({
    heartbeat: { url: { literal: new Secret(CANARY) }, every: MINUTE },
    env: {},
    accounts: () => scene.accounts,
    configured: () => scene.configured,
    store: { commit: (...what) => scene.commit(...what) },
    leadership,
    clock: createClock(),
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
    scene.accounts = [accountWith({ stale: true })];
    await scene.beat();
    await scene.beat();
    scene.accounts = [accountWith({})];
    await scene.beat();
    expect(scene.requests).toEqual([CANARY, `${CANARY}/fail`, `${CANARY}/fail`, CANARY]);
    expect(scene.counts).toEqual({ 'heartbeat sent': 4 });
    expect(scene.log.lines).toEqual([
      expect.objectContaining({ level: 'warn', fields: { notifier: 'heartbeat', why: 'dlq/full of a is stale' } }),
    ]);
  });

  it('the heartbeat is not sent before the first read or while the health cannot be determined', async () => {
    const scene = createScene();
    scene.accounts = [accountWith({ dataAt: undefined })];
    await scene.beat();
    scene.accounts = [accountWith({})];
    scene.commit = () => Promise.reject(new Error('disk full'));
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
  const healthy = { isHealthy: true, why: '' };
  const failing = (why: string) => ({ isHealthy: false, why });

  it.each<[string, HeartbeatAccount[], ReturnType<typeof healthOf>]>([
    ['fresh data', [accountWith({})], healthy],
    ['a failed attempt, but no stale data', [accountWith({ success: false })], healthy],
    ['no data yet', [accountWith({}), accountWith({ dataAt: undefined })], undefined],
    ['nothing to read yet', [accountWith({ dataAt: undefined, idle: 'not_due' })], healthy],
    [
      'stale data',
      [accountWith({ dataAt: undefined }), accountWith({ stale: true })],
      failing('dlq/full of a is stale'),
    ],
    [
      'an optional list that is stale or unread',
      [{ stale: true }, { dataAt: undefined }].map(round => accountWith(round, { collector: 'schedules' })),
      healthy,
    ],
    ['a rejected token', [accountWith({}, { isRejected: true })], failing('the token of a is rejected')],
    [
      'a token rejected before this process started',
      [accountWith({}, { isRejected: true, isTokenKnown: false })],
      undefined,
    ],
    [
      'many rejected tokens',
      Array.from({ length: 12 }, () => accountWith({}, { isRejected: true })),
      failing(`${'the token of a is rejected, '.repeat(9)}the token of a is rejected and 2 more`),
    ],
  ])('healthOf evaluates the health of accounts: %s', (_name, accounts, health) =>
    expect(healthOf(accounts, [])).toEqual(health),
  );
});

describe('heartbeats with replicas', () => {
  it('the heartbeat is sent once every configured account is open and read', async () => {
    const scene = createScene();
    scene.configured = ['a', 'b'];
    await scene.beat();
    expect(scene.requests).toEqual([]);
    scene.accounts = [accountWith({}), accountWith({}, { name: 'b' })];
    await scene.beat();
    scene.accounts = [accountWith({}, { isRejected: true })];
    await scene.beat();
    expect(scene.requests).toEqual([CANARY, `${CANARY}/fail`]);
  });

  it('the heartbeat pauses while the lease has no time left', async () => {
    let remaining = 0;
    const scene = createScene({ remaining: () => remaining });
    await scene.beat();
    expect(scene.requests).toEqual([]);
    remaining = 1000;
    await scene.beat();
    expect(scene.requests).toEqual([CANARY]);
  });
});
