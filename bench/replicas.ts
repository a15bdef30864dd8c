import { type Postgres, postgresIsThere, startPostgres } from '../test/support/postgres-server.ts';
import { table } from './measure.ts';
import { memoryOf, postgresUse, processorTime, startAgent, startEmulator } from './processes.ts';
import { commitCosts } from './replicas-commit.ts';

const COUNTS = [10, 100, 1000] as const;
/** Duration of the measurement, which starts when every account has been read (ms). */
const MEASURED = 30_000;
const MAX_START = 180_000;
const LEASE = 15;
/** Settings as on a production server. The defaults of the test server trade durability for speed. */
const SETTINGS = { fsync: 'on', wal_level: 'replica', max_wal_senders: '10', shared_buffers: '128MB' };

type Agent = Awaited<ReturnType<typeof startAgent>>;
type Emulator = Awaited<ReturnType<typeof startEmulator>>;

const after = (ms: number) => new Promise(resolve => setTimeout(resolve, ms));
const seconds = (ms: number) => (ms / 1000).toFixed(1);

/** Returns the number of accounts that an agent exposes as up. */
async function upIn({ url }: Agent): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return text.match(/^delivery_up\{.*\} 1$/gm)?.length ?? 0;
}

async function until(is: () => Promise<boolean>, every: number): Promise<number> {
  const start = performance.now();
  while (!(await is())) {
    if (performance.now() - start > MAX_START) throw new Error('exceeded the time limit of the measurement');
    await after(every);
  }
  return performance.now() - start;
}

/** Waits until the agent exposes all accounts as up. */
const allUp = (agent: Agent, count: number) => until(async () => (await upIn(agent)) >= count, 500);

/** Waits until the agent leads. */
const leads = ({ url }: Agent) =>
  until(async () => /^delivery_watch_leader(\{.*\})? 1$/m.test(await (await fetch(`${url}/metrics`)).text()), 100);

function agentOf(emulator: Emulator, count: number, store: object, env: Readonly<Record<string, string>> = {}) {
  const accounts = emulator.tokens.slice(0, count).map((_, index) => ({
    name: `production-${index}`,
    baseUrl: emulator.url,
    token: { env: `TOKEN_${index}` },
  }));
  const tokens = Object.fromEntries(emulator.tokens.map((token, index) => [`TOKEN_${index}`, token]));
  return startAgent({ store, accounts }, { ...tokens, ...env });
}

/** Measures the resources that an agent and its database use per minute and account while the service is idle. */
async function idle(agent: Agent, count: number, postgres?: Postgres) {
  await allUp(agent, count);
  const before = postgres && (await postgresUse(postgres));
  const [start, used] = [performance.now(), processorTime(agent.pid)];
  await after(MEASURED);
  const minutes = (performance.now() - start) / 60_000;
  const own = (processorTime(agent.pid) - used) / minutes / count;
  const now = postgres && (await postgresUse(postgres));
  const perMinute = (of: 'processor' | 'wal') => (now && before ? (now[of] - before[of]) / minutes / count : 0);
  return { own, database: perMinute('processor'), wal: perMinute('wal'), memory: memoryOf(agent.pid, 'VmRSS') };
}

/** Ends the leader with `signal`. Returns the times until the standby leads and until it has read all accounts (ms). */
async function takeOver(leader: Agent, standby: Agent, count: number, signal: NodeJS.Signals) {
  const start = performance.now();
  await leader.stop(signal);
  await leads(standby);
  const led = performance.now() - start;
  await allUp(standby, count);
  return { led, read: performance.now() - start };
}

async function measure(count: number, postgres: Postgres) {
  const emulator = await startEmulator({ accounts: count, workload: false, history: 0, dlqEntries: 0 });
  const agents: Agent[] = [];
  try {
    const alone = await agentOf(emulator, count, { kind: 'sqlite', path: 'store.db' });
    agents.push(alone);
    const sqlite = await idle(alone, count);
    await alone.stop();

    const url = await postgres.createDatabase();
    const store = { kind: 'postgres', url: { env: 'DATABASE_URL' }, lease: `${LEASE}s` };
    const start = async () => {
      const agent = await agentOf(emulator, count, store, { DATABASE_URL: url });
      agents.push(agent);
      return agent;
    };
    const first = await start();
    const shared = await idle(first, count, postgres);

    const second = await start();
    const stopped = await takeOver(first, second, count, 'SIGTERM');
    const killed = await takeOver(second, await start(), count, 'SIGKILL');
    process.stderr.write(`replicas: ${count} accounts are measured\n`);
    return { count, sqlite, shared, stopped, killed };
  } finally {
    for (const agent of agents) await agent.stop('SIGKILL');
    await emulator.stop();
  }
}

/** Measures the cost of PostgreSQL compared with SQLite, and how long a takeover takes. */
export async function run(): Promise<string> {
  if (!postgresIsThere()) return 'Not measured: PostgreSQL is not installed.';
  const postgres = await startPostgres({ settings: SETTINGS });
  try {
    const commits = await commitCosts(postgres);
    const all: Awaited<ReturnType<typeof measure>>[] = [];
    for (const count of COUNTS) all.push(await measure(count, postgres));
    const idleRows = all.flatMap(({ count, sqlite, shared }) =>
      [['SQLite', sqlite] as const, ['PostgreSQL', shared] as const].map(([store, { own, database, wal, memory }]) => [
        `${count} accounts, ${store}`,
        own.toFixed(1),
        database === 0 ? '–' : database.toFixed(1),
        `${((own + database) / sqlite.own).toFixed(2)}×`,
        wal === 0 ? '–' : (wal / 1000).toFixed(1),
        memory.toFixed(0),
      ]),
    );
    const takeovers = all.map(({ count, stopped, killed }) => [
      `${count} accounts`,
      ...[stopped, killed].flatMap(({ led, read }) => [seconds(led), seconds(read)]),
    ]);
    return [
      commits,
      `Idle accounts: default intervals, a service without changes, no scrapes; measured for ${MEASURED / 1000} s after all accounts were read. CPU time and write-ahead log are per account and minute; memory is that of the agent.`,
      table(
        ['idle', 'agent, ms a minute', 'PostgreSQL, ms a minute', 'of SQLite', 'kB of WAL a minute', 'MiB'],
        idleRows,
      ),
      `Takeover with a lease time of ${LEASE} s: the leader ends. The table shows the seconds until the standby leads, and until it has read all accounts. All processes share one machine.`,
      table(['the leader ends', 'SIGTERM, leads', 'SIGTERM, read', 'SIGKILL, leads', 'SIGKILL, read'], takeovers),
    ].join('\n\n');
  } finally {
    await postgres.close();
  }
}
