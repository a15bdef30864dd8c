import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { loadStoreSettings } from '../../src/config/load.ts';
import { attachStore } from '../../src/store/open.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { type Agent, createAgent, unlimited } from '../support/agent.ts';
import { createChance } from '../support/chance.ts';
import { type CliProcess, startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { atThisLoad, eventually } from '../support/eventually.ts';
import { startFront } from '../support/front.ts';
import { type Postgres, postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { cancelStuck } from '../support/stuck-rule.ts';

const chance = createChance();
/** Delay that the service adds to each DELETE (ms). */
const SLOW = 300;
/** Minimum time after a pause during which no DELETE may arrive (ms). */
const QUIET = 2000;
const LEASE = 6;

const MANY = { perRun: 10_000, perHour: 10_000 };

/**
 * Starts agents on one store, and a service that is slow to cancel. Without PostgreSQL there is one agent on SQLite.
 */
async function setScene(postgres?: Postgres) {
  const emulator = await emulateEmpty();
  const deletes: string[] = [];
  let walks = 0;
  const front = await startFront(emulator.url, {
    async before({ method, path }) {
      if (method === 'GET' && /^\/v2\/dlq(\?|$)/.test(path) && !/messageId=|source=/.test(path)) walks += 1;
      if (method !== 'DELETE') return;
      deletes.push(path);
      await sleep(SLOW);
    },
  });
  afterThisTest(() => front.close());
  const database = await postgres?.createDatabase();
  const env = { DELIVERY_TOKEN: emulator.token, ...(database && { DATABASE_URL: database }) };
  const config = {
    ...(database && { store: { kind: 'postgres', url: { env: 'DATABASE_URL' }, lease: `${LEASE}s` } }),
    // With this budget, a DELETE waits about one second after its intent is committed.
    accounts: [{ ...unlimited('a', front.url), budget: { requestsPerSecond: 1, burst: 1, concurrency: 8 } }],
    upstream: { timeout: '2s' },
    collect: {
      flowControl: { enabled: false },
      events: { enabled: false },
      dlq: { every: '1s', rescanEvery: '1s' },
    },
    autoCancel: cancelStuck(MANY, 10_000, 10_000),
  };
  const agents = Array.from({ length: postgres ? 2 : 1 }, () => createAgent(config, env));
  const [{ configFile }] = agents as [Agent];
  await Promise.all(agents.map(agent => agent.start()));
  let stuck = 0;

  const run = (name: string, ...args: string[]): CliProcess =>
    startCli(['auto-cancel', name, '--config', configFile, ...args], env);
  const stop = (name: 'pause' | 'resume') => run(name, '--by', 'ann', '--reason', 'incident');

  return {
    agents,
    deletes,
    /** Waits until more than `count` further walks have started. */
    moreWalks: (count: number, from = walks) => eventually(() => expect(walks).toBeGreaterThan(from + count)),
    /** Adds stuck callbacks and waits until a cancel is in progress. */
    async cancelSome() {
      for (let left = 20; left > 0; left -= 1) {
        stuck += 1;
        const workflowUrl = `https://stuck.example.com/${stuck}`;
        emulator.state.addFailedRun({ callbackRetries: 0, maxRetries: 0, workflowUrl });
      }
      const before = deletes.length;
      await eventually(() => expect(deletes.length).toBeGreaterThan(before));
    },
    run,
    pause: () => stop('pause'),
    async resume() {
      expect(await stop('resume').ended).toBe(0);
    },
    /**
     * Writes orders that no agent can execute: the agent has to read, refuse and delete each one. Returns a function
     * that counts the remaining ones.
     */
    async queueOrders(count: number) {
      const store = await attachStore(loadStoreSettings(configFile).store, { env });
      afterThisTest(() => store.close());
      const order = {
        kind: 'reset-breaker',
        at: 1,
        account: 'a',
        breaker: 'errors',
        openedAt: 1,
        by: 'bob',
        reason: 'x',
      };
      const rows = Array.from({ length: count }, () => ({
        key: `auto-cancel/orders/${randomUUID()}`,
        value: JSON.stringify(order),
      }));
      await store.command(rows);
      return async () => (await store.scan(NO_ACCOUNT, 'auto-cancel/orders/')).size;
    },
  };
}

type Scene = Awaited<ReturnType<typeof setScene>>;

/** Checks after a pause that no DELETE reaches the service during at least three walks. */
async function expectQuiet({ deletes, moreWalks }: Scene): Promise<void> {
  const { length } = deletes;
  await Promise.all([sleep(QUIET), moreWalks(3)]);
  expect(deletes.slice(length)).toEqual([]);
}

async function expectQuickPause({ run, pause }: Scene): Promise<void> {
  const timed = async (command: CliProcess) => {
    const from = performance.now();
    expect(await command.ended).toBe(0);
    return performance.now() - from;
  };
  // Subtract the startup time, measured with a command that only reads the store.
  const reading = await timed(run('journal'));
  expect((await timed(pause())) - reading).toBeLessThan(atThisLoad(2000));
}

/** Pauses and resumes while callbacks are cancelled and processes are killed. */
async function pauseRepeatedly(postgres?: Postgres): Promise<void> {
  const scene = await setScene(postgres);
  const { agents, pause, resume, cancelSome } = scene;
  await scene.moreWalks(3);
  await expectQuickPause(scene);
  await resume();

  await cancelSome();
  const left = await scene.queueOrders(200);
  expect(await pause().ended).toBe(0);
  await expectQuiet(scene);
  await eventually(async () => expect(await left()).toBe(0));
  await resume();

  await cancelSome();
  const killed = pause();
  await sleep(chance.between(0, 1500));
  killed.kill('SIGKILL');
  await killed.ended;
  expect(await pause().ended).toBe(0);
  await expectQuiet(scene);
  await resume();

  await cancelSome();
  const command = pause();
  await sleep(chance.between(0, 1500));
  const agent = chance.pick(agents);
  await agent.end('SIGKILL');
  await agent.start();
  expect(await command.ended).toBe(0);
  await expectQuiet(scene);
  await resume();
  await cancelSome();
}

const postgres = postgresIsThere() ? postgresForTests() : undefined;

it('no DELETE is sent after auto-cancel pause has returned, even if the agent or the command is killed', async () => {
  await Promise.all([pauseRepeatedly(), postgres && pauseRepeatedly(postgres())]);
});
